"""Jails for code that nobody trusts, and the border to the environments that run in them.

`choose()` finds a jail that works on this machine, `available()` says which do and why; `Command` is what a
jail runs; `jail.border` opens an author's environment. It does not protect against bugs of the kernel.
"""

from trainsmith.jail.base import Jail, JailKind
from trainsmith.jail.choose import JailReport, available, choose
from trainsmith.jail.command import Command, Folder
from trainsmith.jail.launch import Finished, run
from trainsmith.jail.limits import JailLimits
from trainsmith.jail.process import JailProcess

__all__ = [
    "Command",
    "Finished",
    "Folder",
    "Jail",
    "JailKind",
    "JailLimits",
    "JailProcess",
    "JailReport",
    "available",
    "choose",
    "run",
]
