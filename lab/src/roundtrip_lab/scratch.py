"""Temporary folders. Those that a killed program left are removed by the next that makes one."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Hidden, so that nobody takes the folder for a run.
PREFIX = ".roundtrip-lab-scratch-"


@contextlib.contextmanager
def scratch(above: Path | None = None) -> Iterator[Path]:
    """A new folder that only this user can enter, until the block ends. It lies in `above`, or where the system keeps
    temporary files."""
    above = above or Path(tempfile.gettempdir())
    for left in above.glob(f"{PREFIX}*"):
        with locked(left) as free:
            if free:
                shutil.rmtree(left, ignore_errors=True)
    while True:
        made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
        with locked(made) as free:
            # Another program may have removed it before it was locked.
            if free:
                try:
                    yield made
                finally:
                    shutil.rmtree(made, ignore_errors=True)
                return


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Locks this user's folder until the block ends or the program is killed. False if another program has locked or
    removed it."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        yield os.fstat(opened).st_uid == os.geteuid() and takes(opened) and folder.is_dir()
    finally:
        os.close(opened)


def takes(opened: int) -> bool:
    """Whether this program gets the lock at once."""
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
