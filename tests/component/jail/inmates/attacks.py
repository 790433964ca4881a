# ruff: noqa: PTH101, PTH104, PTH108, PTH111, PTH116, PTH208
"""Run inside a jail: try to get out in many ways. Prints one JSON object: what each attack came to.

`attacks.py SECRET_FILE OPEN_FOLDER OUTER_PID TCP_PORT UDP_PORT UNIX_SOCKET MARK_BACKWARDS`
"""

import ctypes
import json
import os
import platform
import socket
import struct
import sys
from pathlib import Path

SECRET, FOLDER, OUTER, TCP, UDP, UNIX, BACKWARDS = sys.argv[1:8]
MARK = BACKWARDS[::-1]
ABSTRACT = MARK
LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
NUMBERS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "bpf": (321, 280), "keyctl": (250, 219),
    "add_key": (248, 217), "io_uring_setup": (425, 425), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "memfd_create": (319, 279), "shmget": (29, 194), "unshare": (272, 97),
    "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "chroot": (161, 51),
    "pivot_root": (155, 41), "open_tree": (428, 428), "fsopen": (430, 430), "clone3": (435, 435),
    "pidfd_getfd": (438, 438), "kexec_load": (246, 104), "init_module": (175, 105),
    "prlimit64": (302, 261), "name_to_handle_at": (303, 264), "personality": (135, 92),
    "setpriority": (141, 140), "ioctl": (16, 29), "quotactl": (179, 60), "fanotify_init": (300, 262),
    "inotify_init1": (294, 26), "mq_open": (240, 180),
}  # fmt: skip


def call(name, *arguments):
    number = NUMBERS[name][0 if X86 else 1]
    result = LIBC.syscall(ctypes.c_long(number), *(ctypes.c_long(item) for item in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def read(path):
    return Path(path).read_bytes()[:80]


def by_symlink():
    link = Path("link")
    link.symlink_to(SECRET)
    return read(link)


def by_hard_link():
    os.link(SECRET, "hard")
    return read("hard")


def leaks(paths):
    """Files of other processes that show the mark."""
    for path in paths:
        try:
            if MARK.encode() in Path(path).read_bytes():
                return str(path)
        except OSError:
            continue
    raise PermissionError("nothing found")


def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as sock:
        sock.settimeout(1)
        sock.connect(address)
        sock.send(b"escaped")


def send_datagram(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"escaped", address)
        raise ConnectionError("sent; the listener outside knows whether it came")


def spare_descriptors():
    found = []
    for number in range(3, 512):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    if not found:
        raise OSError("none")
    return found


def write(path):
    Path(path).write_text("escaped")


def become_root():
    os.setuid(0)
    return os.getuid()


def namespace_by_clone():
    flags = 0x10000000 | 17
    pid = LIBC.syscall(ctypes.c_long(56 if X86 else 220), ctypes.c_long(flags), 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")
    return pid


def signal_outside(pid):
    os.kill(pid, 0)


def take_descriptor(pid):
    descriptor = os.pidfd_open(pid)
    try:
        return call("pidfd_getfd", descriptor, 0, 0)
    finally:
        os.close(descriptor)


def change(path, action):
    before = os.stat(path)
    action()
    after = os.stat(path)
    if (before.st_mode, before.st_mtime_ns, before.st_uid) == (
        after.st_mode,
        after.st_mtime_ns,
        after.st_uid,
    ):
        raise PermissionError("no effect")
    return after


def limit_outside(pid):
    limits = ctypes.create_string_buffer(struct.pack("QQ", 1, 1))
    call("prlimit64", pid, 0, ctypes.addressof(limits), 0)


def type_into_terminal():
    letter = ctypes.create_string_buffer(b"x")
    call("ioctl", 0, 0x5412, ctypes.addressof(letter))


def import_folders():
    for folder in sys.path:
        try:
            Path(folder, "sitecustomize.py").write_text("escaped")
        except OSError:
            continue
        return folder
    raise PermissionError("none is writable")


JAIL = os.environ["TRAINSMITH_JAIL"]
PID = int(OUTER)
PROC = Path("/proc")
ATTACKS = {
    "read a secret file": lambda: read(SECRET),
    "read it through a symbolic link": by_symlink,
    "read it through a hard link": by_hard_link,
    "read it through /proc/1/root": lambda: read(f"/proc/1/root{SECRET}"),
    "read it through the parent's root": lambda: read(f"/proc/{PID}/root{SECRET}"),
    "list the folder of the secret": lambda: os.listdir(Path(SECRET).parent),
    "list root's home": lambda: os.listdir(os.path.expanduser("~root")) and read("/root/.bashrc"),
    "read the machine's users": lambda: read("/etc/shadow"),
    "read environments of other processes": lambda: leaks(PROC.glob("[0-9]*/environ")),
    "read command lines of other processes": lambda: leaks(PROC.glob("[0-9]*/cmdline")),
    "read the parent's memory file": lambda: read(f"/proc/{PID}/mem"),
    "read the parent's memory by system call": lambda: call("process_vm_readv", PID, 0, 0, 0, 0, 0),
    "list the parent's descriptors": lambda: os.listdir(f"/proc/{PID}/fd"),
    "trace the parent": lambda: call("ptrace", 16, PID, 0, 0),
    "trace itself": lambda: call("ptrace", 0, 0, 0, 0),
    "take a descriptor of the parent": lambda: take_descriptor(PID),
    "find spare descriptors": spare_descriptors,
    "signal the parent": lambda: signal_outside(PID),
    "change the parent's limits": lambda: limit_outside(PID),
    "change the priority of all": lambda: call("setpriority", 2, 0, 19),
    "connect by tcp on loopback": lambda: connect(socket.AF_INET, ("127.0.0.1", int(TCP))),
    "connect by tcp far away": lambda: connect(socket.AF_INET, ("1.1.1.1", 53)),
    "connect by tcp over IPv6": lambda: connect(socket.AF_INET6, ("::1", int(TCP))),
    "send a datagram": lambda: send_datagram(("127.0.0.1", int(UDP))),
    "connect to a unix socket": lambda: connect(socket.AF_UNIX, UNIX),
    "connect to an abstract unix socket": lambda: connect(socket.AF_UNIX, "\0" + ABSTRACT),
    "open a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "open a packet socket": lambda: socket.socket(17, socket.SOCK_RAW, 0),
    "open a netlink socket": lambda: socket.socket(16, socket.SOCK_RAW, 0),
    "open a vsock": lambda: socket.socket(40, socket.SOCK_STREAM, 0),
    "write outside": lambda: write(Path(FOLDER, "planted")),
    "write over the secret": lambda: write(SECRET),
    "delete the secret": lambda: os.unlink(SECRET),
    "rename the secret": lambda: os.rename(SECRET, SECRET + ".moved"),
    "move a file out": lambda: (write("mine"), os.rename("mine", Path(FOLDER, "moved"))),
    "change a mode outside": lambda: change(FOLDER, lambda: os.chmod(FOLDER, 0o700)),
    "change a time outside": lambda: change(FOLDER, lambda: os.utime(FOLDER)),
    "set an attribute outside": lambda: os.setxattr(FOLDER, "user.escaped", b"1"),
    "truncate the secret": lambda: os.truncate(SECRET, 0),
    "plant code on the import path": import_folders,
    "plant code in the jail's own library": lambda: write(f"{JAIL}/lib/trainsmith_enter/kernel.py"),
    "write to the system": lambda: write("/usr/lib/planted"),
    "write a kernel setting": lambda: write("/proc/sys/kernel/core_pattern"),
    "write to sysfs": lambda: write("/sys/kernel/mm/ksm/run"),
    "read the disk": lambda: read("/dev/vda") or read("/dev/sda"),
    "read physical memory": lambda: read("/dev/mem"),
    "make a device": lambda: os.mknod("device", 0o20666, os.makedev(1, 1)),
    "become root": become_root,
    "make a user namespace": lambda: call("unshare", 0x10000000),
    "make a mount namespace": lambda: call("unshare", 0x00020000),
    "make a user namespace by clone": namespace_by_clone,
    "make a user namespace by clone3": lambda: call("clone3", 0, 0),
    "enter a namespace": lambda: call("setns", 0, 0),
    "mount": lambda: call("mount", 0, 0, 0, 0, 0),
    "unmount": lambda: call("umount2", 0, 0),
    "mount by the new calls": lambda: call("fsopen", 0, 0),
    "clone a mount": lambda: call("open_tree", -100, 0, 1),
    "change the root": lambda: call("chroot", 0),
    "pivot the root": lambda: call("pivot_root", 0, 0),
    "load bpf": lambda: call("bpf", 0, 0, 0),
    "use the kernel's keys": lambda: call("keyctl", 0, -3, 1),
    "add a key": lambda: call("add_key", 0, 0, 0, 0, 0),
    "set up io_uring": lambda: call("io_uring_setup", 8, 0),
    "count performance events": lambda: call("perf_event_open", 0, 0, -1, -1, 0),
    "handle page faults": lambda: call("userfaultfd", 1),
    "take memory that no limit counts": lambda: call("memfd_create", 0, 0),
    "take shared memory": lambda: call("shmget", 0, 1 << 20, 0o1600),
    "open a message queue": lambda: call("mq_open", 0, 0, 0, 0),
    "take a file handle": lambda: call("name_to_handle_at", -100, 0, 0, 0, 0),
    "load a kernel": lambda: call("kexec_load", 0, 0, 0, 0),
    "load a module": lambda: call("init_module", 0, 0, 0),
    "change the personality": lambda: call("personality", 0x0040000),
    "watch files of others": lambda: call("inotify_init1", 0),
    "type into the terminal": type_into_terminal,
}


def attempt(attack):
    try:
        return f"SUCCESS: {attack()!r}"[:200]
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"[:200]


print(json.dumps({name: attempt(attack) for name, attack in ATTACKS.items()}))
