"""The jail's user must be able to read our own sources."""

import stat
from pathlib import Path

from trainsmith.jail.readable import readable


def test_a_checkout_of_a_strict_umask_is_copied(tmp_path: Path) -> None:
    """Guards against a jail that cannot start after `umask 077; git clone`."""
    folder = tmp_path / "enter"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "code.py").write_text("1")
    (folder / "deep" / "code.py").chmod(0o600)
    found = readable(folder)
    assert found != folder and (found / "deep" / "code.py").read_text() == "1"
    for path in (found.parent, found, *found.rglob("*")):
        assert path.stat().st_mode & (stat.S_IXOTH if path.is_dir() else 0) or path.is_file()
        assert path.stat().st_mode & stat.S_IROTH


def test_an_open_folder_is_used_as_it_is(tmp_path: Path) -> None:
    """Guards against needless copies."""
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    assert readable(folder) == folder
