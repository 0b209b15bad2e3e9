"""Opening labels and probabilities that lie in files, without reading large ones.

A local `.npy` is memory-mapped. Zarr, Parquet, a folder of shards and whatever lies at an fsspec
address is opened as `Shards`, which detection reads in blocks. `.npz` and `.csv` are read whole.
`FILE::KEY` names an array of an `.npz`, a column of labels in a table, or an array of a Zarr group.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.tables.table_files import read_csv
from uqled.errors import FileError
from uqled.limits import check_limit
from uqled.storage.arrays.numpy_files import open_array, open_npz
from uqled.storage.arrays.shards import open_shards, split_key
from uqled.storage.location import Location
from uqled.storage.reading import explain_file_problems, name_file
from uqled.storage.tables.parquet_tables import read_parquet

FORMATS = (".npy", ".npz", ".csv", ".parquet", ".zarr")


def open_probabilities(address: str, *, ndim: int) -> Any:
    """An array [N,K] or [F,N,K] of any of the formats; a table's columns are the classes."""
    place, key = _split_address(address)
    if place.suffix in (".csv", ".parquet") and not place.is_folder():
        _refuse_as_table(address, key, ndim=ndim)
    if place.suffix == ".csv":
        frame = _read_table(place)
        unnamed_columns = [column for column in frame.columns if str(column).startswith("Unnamed")]
        texts = [c for c in frame.columns if frame[c].dtype.kind not in "fiu"]
        if texts or unnamed_columns:
            raise FileError(
                name_file(address),
                f"has a column that does not hold probabilities: {[*texts, *unnamed_columns][0]!r}",
                "Keep one column per class and nothing else",
            )
        return frame
    if (array := _open_local_array(place, key)) is not None:
        return array
    return open_shards(place, ndim=ndim, name="passes" if ndim == 3 else "pred_probs", key=key)


def open_labels(address: str) -> Any:
    """A column of labels of any of the formats."""
    place, key = _split_address(address)
    if (array := _open_local_array(place, key)) is not None:
        return array
    is_local_file = place.is_local and not place.is_folder()  # whose types pandas keeps
    if place.suffix != ".csv" and not (place.suffix == ".parquet" and is_local_file):
        return open_shards(place, ndim=1, name="labels", key=key)
    frame = _read_table(place)
    columns = list(map(str, frame.columns))
    if key is None and len(columns) > 1:
        if "label" not in columns:
            raise FileError(
                name_file(address),
                f"has the columns {', '.join(columns)}",
                f"Say which holds the labels: {place.name}::{columns[0]}",
            )
        key = "label"
    return frame[_choose_key(key, columns, place, "column")]


def _choose_key(key: str | None, names: list[str], place: Location, kind: str) -> str:
    """The column or array that is asked for, which is there; the first if none is."""
    if key is None:
        return names[0]
    if key not in names:
        raise FileError(
            name_file(place), f"has no {kind} {key!r}", f"Choose one of {', '.join(names)}"
        )
    return key


def _split_address(address: str) -> tuple[Location, str | None]:
    """The place and the key of an address, which is there and of a known format."""
    place, key = split_key(address)
    entry = place.entry()
    is_folder = entry is not None and entry.is_folder
    if is_folder and place.suffix in (".npz", ".csv"):
        raise FileError(name_file(_shorten_address(address)), "is a folder", "Name a file in it")
    if not is_folder and place.suffix and place.suffix not in FORMATS:
        raise FileError(
            name_file(address),
            f"has the ending {place.suffix!r}",
            f"Use one of {', '.join(FORMATS)}, or a folder of shards",
        )
    if entry is None:
        raise FileError(name_file(_shorten_address(address)), "does not exist", "Check the path")
    return place, key


def _shorten_address(address: str) -> str:
    """An address as it was written, without its key."""
    key = split_key(address)[1]
    return address if key is None else address.removesuffix(f"::{key}")


def _refuse_as_table(address: str, key: str | None, *, ndim: int) -> None:
    if ndim == 3:
        raise FileError(
            name_file(address),
            "is a table, which has no passes",
            "Use .npy, .npz or Zarr [F,N,K], or a folder of tables per pass",
        )
    if key is not None and _shorten_address(address).endswith(".csv"):
        raise FileError(
            name_file(address),
            "names a column",
            "Probabilities take all columns: leave the key out",
        )


def _open_local_array(place: Location, key: str | None) -> NDArray[Any] | None:
    """An array of an `.npz`, or a local `.npy`, memory-mapped if it is no column; else None."""
    if place.suffix == ".npz":
        return _read_npz(place, key)
    if not place.is_local or place.suffix != ".npy" or place.is_folder():
        return None
    if key is not None:
        raise FileError(name_file(place), f"holds one array, not {key!r}", "Leave the key out")
    return _open_npy(place.path)


def _open_npy(path: Path) -> NDArray[Any]:
    if path.is_file() and path.stat().st_size == 0:
        raise FileError(name_file(str(path)), "is empty", "Write it again")
    array = open_array(path)
    if array.ndim > 1:
        return array
    check_limit("memory_bytes", array.nbytes, name_file(str(path)))
    return np.array(array)


def _read_npz(place: Location, key: str | None) -> NDArray[Any]:
    with place.open() as file, open_npz(str(place), file) as archive:
        keys = archive.keys
        if key is None and len(keys) != 1:
            raise FileError(
                name_file(place),
                f"holds {len(keys)} arrays",
                f"Say which: {place.name}::KEY with KEY one of {', '.join(keys)}",
            )
        return archive.read(_choose_key(key, keys, place, "array"))


def _read_table(place: Location) -> Any:
    frame = _read_local_frame(place.path) if place.is_local else _read_remote_frame(place)
    names = [str(column) for column in frame.columns]
    if place.suffix == ".csv" and _is_data_row(names):
        raise FileError(
            name_file(place),
            f"has no header: its first line is {','.join(names)[:60]!r}",
            "Add a line that names the columns, or save it as .npy",
        )
    return frame


def _read_local_frame(path: Path) -> Any:
    if path.suffix == ".csv":
        return read_csv(path)
    with explain_file_problems(path, "Write it again"):  # reads the metadata that pandas wrote
        return read_parquet(path).to_pandas()


def _read_remote_frame(place: Location) -> Any:
    """The table of a store, by way of a local copy."""
    check_limit("memory_bytes", place.size(), name_file(place))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"table{place.suffix}")
        path.write_bytes(place.read())
        try:
            return _read_local_frame(path)
        except FileError as error:  # which names the copy
            raise type(error)(name_file(place), error.problem, error.fix) from error


def _is_data_row(names: list[str]) -> bool:
    """Whether a CSV begins with a row of data: a broken number, or one column named by a number."""
    if len(names) == 1:
        return names[0].lstrip("+-").isdecimal()
    return any(_is_fraction(name) for name in names)


def _is_fraction(name: str) -> bool:
    if not set(name) <= set("0123456789.eE+-") or name.isdecimal():
        return False
    try:
        float(name)
    except ValueError:
        return False
    return True
