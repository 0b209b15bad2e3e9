"""Opening labels and probabilities that lie in files, without reading large ones.

`.npy` is memory-mapped and `.zarr` opened, so that detection reads them in blocks; `.npz`, `.csv`
and `.parquet` are read whole. `FILE::KEY` names an array of an `.npz`, a column of labels in a
table, or an array of a Zarr group.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError

FORMATS = (".npy", ".npz", ".csv", ".parquet", ".zarr")


def open_probabilities(place: str, *, ndim: int) -> Any:
    """An array [N,K] or [F,N,K] of any of the formats; a table's columns are the classes."""
    path, key = _split(place)
    if path.suffix in (".csv", ".parquet"):
        frame = _table(path)
        if key is not None:
            raise FileError(
                _quoted(place),
                "names a column",
                "Probabilities take all columns: leave the key out",
            )
        if ndim == 3:
            raise FileError(
                _quoted(place), "is a table, which has no passes", "Use .npy, .npz or Zarr [F,N,K]"
            )
        unnamed = [column for column in frame.columns if str(column).startswith("Unnamed")]
        texts = [c for c in frame.columns if frame[c].dtype.kind not in "fiu"]
        if texts or unnamed:
            raise FileError(
                _quoted(place),
                f"has a column of something else than probabilities: {[*texts, *unnamed][0]!r}",
                "Keep one column per class and nothing else",
            )
        return frame
    return _array(path, key)


def open_labels(place: str) -> Any:
    """A column of labels of any of the formats."""
    path, key = _split(place)
    if path.suffix not in (".csv", ".parquet"):
        found = _array(path, key)
        return found if isinstance(found, np.ndarray) else np.asarray(found[...])
    frame = _table(path)
    columns = list(map(str, frame.columns))
    if key is None and len(columns) > 1:
        key = "label" if "label" in columns else None
        if key is None:
            raise FileError(
                _quoted(place),
                f"has the columns {', '.join(columns)}",
                f"Say which holds the labels: {path.name}::{columns[0]}",
            )
    key = key if key is not None else columns[0]
    if key not in columns:
        raise FileError(
            _quoted(place), f"has no column {key!r}", f"Choose one of {', '.join(columns)}"
        )
    return frame[key]


def _split(place: str) -> tuple[Path, str | None]:
    name, separator, key = place.rpartition("::")
    path = Path(name if separator else place)
    if path.suffix not in FORMATS:
        raise FileError(
            _quoted(place), f"has the ending {path.suffix!r}", f"Use one of {', '.join(FORMATS)}"
        )
    if not path.exists():
        raise FileError(_quoted(path), "does not exist", "Check the path")
    if path.is_dir() and path.suffix != ".zarr":
        raise FileError(_quoted(path), "is a folder", "Name a file in it")
    return path, key if separator else None


def _array(path: Path, key: str | None) -> Any:
    try:
        if path.suffix == ".zarr":
            return _zarr(path, key)
        if path.suffix == ".npz":
            return _npz(path, key)
        if key is not None:
            raise FileError(_quoted(path), f"holds one array, not {key!r}", "Leave the key out")
        return _npy(path)
    except FileError:
        raise
    except (ValueError, OSError, EOFError, KeyError, BadZipFile, SyntaxError) as error:
        raise FileError(
            _quoted(path), f"cannot be read ({_first_line(error)})", "Write it again"
        ) from error


def _npy(path: Path) -> NDArray[Any]:
    if path.stat().st_size == 0:
        raise FileError(_quoted(path), "is empty", "Write it again")
    header = np.load(path, mmap_mode="r", allow_pickle=False)
    if header.dtype.kind in "OV":
        raise FileError(_quoted(path), f"holds {header.dtype}", "Save numbers or strings")
    return header if header.ndim > 1 else np.array(header)


def _npz(path: Path, key: str | None) -> NDArray[Any]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        keys = list(archive.keys())
        if key is None and len(keys) != 1:
            raise FileError(
                _quoted(path),
                f"holds {len(keys)} arrays",
                f"Say which: {path.name}::KEY with KEY one of {', '.join(keys)}",
            )
        key = key if key is not None else keys[0]
        if key not in keys:
            raise FileError(
                _quoted(path), f"has no array {key!r}", f"Choose one of {', '.join(keys)}"
            )
        return np.asarray(archive[key])


def _zarr(path: Path, key: str | None) -> Any:
    try:
        import zarr
    except ImportError as error:
        raise FileError(
            _quoted(path), "needs the zarr package", "pip install 'uqled[zarr]'"
        ) from error
    found = zarr.open(str(path), mode="r")
    if isinstance(found, zarr.Array):
        if key is not None:
            raise FileError(_quoted(path), f"is one array, not {key!r}", "Leave the key out")
        return found
    keys = sorted(name for name, _ in found.arrays())
    if key is None or key not in keys:
        raise FileError(
            _quoted(path),
            f"is a group{'' if key is None else f' without an array {key!r}'}",
            f"Say which array: {path.name}::KEY with KEY one of {', '.join(keys)}",
        )
    return found[key]


def _table(path: Path) -> Any:
    import pandas as pd
    from pyarrow import ArrowException

    try:
        frame = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    except (ValueError, OSError, ArrowException) as error:
        raise FileError(
            _quoted(path), f"cannot be read ({_first_line(error)})", "Write it again"
        ) from error
    names = [str(column) for column in frame.columns]
    if path.suffix == ".csv" and _looks_like_data(names):
        raise FileError(
            _quoted(path),
            f"has no header: its first line is {','.join(names)[:60]!r}",
            "Add a line that names the columns, or save it as .npy",
        )
    return frame


def _looks_like_data(names: list[str]) -> bool:
    """If a CSV's first line is a row of data: a broken number, or one column named by a number."""
    if len(names) == 1:
        return names[0].lstrip("+-").isdecimal()
    return any(_is_broken_number(name) for name in names)


def _is_broken_number(name: str) -> bool:
    if not set(name) <= set("0123456789.eE+-") or name.isdecimal():
        return False
    try:
        float(name)
    except ValueError:
        return False
    return True


def _quoted(path: Path | str) -> str:
    return f"file {str(path)!r}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
