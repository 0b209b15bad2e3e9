"""One process at a time in a folder.

The lock is on the folder itself, so there is no lock file to be left behind, and the system drops
it with the process: a run that was killed can be continued at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from uqled.errors import BusyError

if sys.platform != "win32":  # Windows has no such locks
    import fcntl


@contextmanager
def lock_folder(folder: Path, what: str = "run") -> Iterator[None]:
    """Hold the folder, or refuse: another process is working in it.

    A file system without locks (some network drives) goes without.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(
                f"{what} {str(folder)!r}",
                "is in use by another process",
                "Wait for it or stop it, or choose another folder",
            ) from None
        except OSError:
            pass
        yield
    finally:
        os.close(descriptor)
