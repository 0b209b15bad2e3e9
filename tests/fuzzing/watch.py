"""What a case may not do, whatever the bytes say: write, delete, start or connect elsewhere.

Python reports such calls before it makes them (audit hooks, PEP 578). A hook cannot be taken away
again, so it is installed in worker processes alone. Code in C is not seen by it; what lies beside
the case's folder is therefore compared as well.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_STARTING = {
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
    "os.forkpty", "pty.spawn", "webbrowser.open", "socket.connect", "socket.getaddrinfo",
    "socket.gethostbyname", "socket.sendto", "ctypes.dlopen", "pickle.find_class", "os.kill",
    "urllib.Request", "ftplib.connect", "smtplib.connect",
}  # fmt: skip
#: Event -> which of its arguments are paths, and where the folder of each is given.
_CHANGING = {
    "os.remove": [(0, 1)], "os.rmdir": [(0, 1)], "os.mkdir": [(0, 2)], "os.chmod": [(0, 2)],
    "os.chown": [(0, 3)], "os.utime": [(0, 3)], "os.truncate": [(0, None)],
    "os.rename": [(0, 2), (1, 3)], "os.link": [(1, 3)], "os.symlink": [(1, 2)],
    "os.mkfifo": [(0, 2)], "os.setxattr": [(0, None)],
}  # fmt: skip
_HARMLESS = ("/dev/null", "/dev/tty")
#: Files of packages that write them for themselves: compiled kernels and bytecode.
_CACHES = ("__pycache__", ".numba_cache")


class Watch:
    """Records what a case does outside the folders it may write to, and prevents it."""

    def __init__(self) -> None:
        self._folders: tuple[str, ...] | None = None
        self.violations: list[str] = []
        sys.addaudithook(self._hook)

    @contextmanager
    def watch_folders(self, folders: Sequence[Path]) -> Iterator[None]:
        self.violations = []
        self._folders = tuple(os.path.realpath(folder) + os.sep for folder in folders)
        try:
            yield
        finally:
            self._folders = None

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._folders is None:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = bool(flags & _WRITING) or bool(set(mode or "") & set("wax+"))
            if writes and not isinstance(path, int):
                self._judge(event, path, None)
        elif event == "sqlite3.connect":
            path = os.fsdecode(arguments[0])
            if path != ":memory:" and not path.startswith("file:"):
                self._judge(event, path, None)
        elif event in _CHANGING:
            for which, folder in _CHANGING[event]:
                self._judge(event, arguments[which], None if folder is None else arguments[folder])
        elif event == "ctypes.dlopen" and _is_loaded(arguments[0]):
            return  # threadpoolctl asks libraries for their threads: opening one again runs nothing
        elif event in _STARTING and not self._is_own_import(event):
            self._refuse(f"{event} {arguments!r:.300}")

    def _judge(self, event: str, path: Any, folder: Any) -> None:
        if isinstance(path, int):
            return
        text = os.fsdecode(path)
        if isinstance(folder, int) and folder >= 0:
            text = str(Path(f"/proc/self/fd/{folder}").readlink() / text)
        parent, name = os.path.split(os.path.abspath(text))  # noqa: PTH100
        real = os.path.join(os.path.realpath(parent), name)  # noqa: PTH118
        if event in ("open", "sqlite3.connect"):
            real = os.path.realpath(real)  # which follows a link
        if real in _HARMLESS or any(part in _CACHES for part in Path(real).parts):
            return
        assert self._folders is not None
        if not (real + os.sep).startswith(self._folders):
            self._refuse(f"{event} {real}")

    def _is_own_import(self, event: str) -> bool:
        """If a package is loading its library, or numba one of its kernels."""
        if event not in ("ctypes.dlopen", "pickle.find_class"):
            return False
        frame: Any = sys._getframe()
        while frame is not None:
            name = frame.f_globals.get("__name__", "")
            if name.startswith(("numba", "importlib", "_frozen_importlib")):
                return True
            frame = frame.f_back
        return False

    def _refuse(self, what: str) -> None:
        self.violations.append(what)
        raise PermissionError(f"a case may not {what}")


def _is_loaded(library: Any) -> bool:
    """If a shared library, by its whole path, is in this process already."""
    if not isinstance(library, str | bytes) or not os.path.isabs(os.fsdecode(library)):  # noqa: PTH117
        return False
    real = os.path.realpath(os.fsdecode(library))
    lines = Path("/proc/self/maps").read_text().splitlines()
    return any(line.split(maxsplit=5)[5:] == [real] for line in lines)


def place_bystanders(folder: Path) -> None:
    """Files of somebody else, hidden and old ones among them, as users have them."""
    folder.mkdir(parents=True)
    long_ago = time.time() - 30 * 86_400
    for name in (
        "notes.txt",
        ".notes",
        ".run-notes",
        ".checkpoint-1.pt",
        "x.npy",
        ".x.npy",
        ".cache",
    ):
        file = folder / name
        file.write_text(f"{name} of somebody else\n")
        os.utime(file, (long_ago, long_ago))


def take_snapshot(folder: Path) -> dict[str, str]:
    """Every entry below: what it is, and a hash of what a file holds."""
    snapshot = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                about = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
            else:
                about = str(path.readlink()) if stat.S_ISLNK(mode) else str(stat.S_IFMT(mode))
            snapshot[path.relative_to(folder).as_posix()] = about
    return snapshot


def limit_memory(room: int) -> None:
    """Let this process allocate so many bytes more than it has."""
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + room
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def measure_peak() -> int:
    """The most bytes that this process has had resident since `reset_peak`, or ever."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def measure_resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure_computing(pid: int) -> float:
    """Seconds that all threads of a process have computed; 0 of one that is gone."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def reset_peak() -> None:
    """Count the peak from now on, where the system lets us."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def use_folder_for_temporary_files(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    os.environ["SQLITE_TMPDIR"] = str(folder)
