"""Images in a table: encoded in its cells, or files that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.image_cache import EncodedImages
from uqled.data.raw_dataset import make_ids
from uqled.data.tables.byte_columns import is_binary
from uqled.errors import FileError
from uqled.storage.reading import read_file


def list_image_types(schema: Any) -> list[str]:
    """Columns of an Arrow schema that hold encoded images: bytes, or the hub's {bytes, path}."""
    return [field.name for field in schema if _holds_images(field.type)]


def read_image_file(path: str | Path) -> bytes:
    """The bytes of a file that a table names."""
    try:
        return read_file(path, "image_bytes")
    except FileError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise error.__cause__ from error
        raise


def read_cells(
    column: Any, folder: Path, rows: NDArray[np.intp]
) -> tuple[EncodedImages, NDArray[Any]]:
    """Images inside an Arrow column: bytes, or {bytes, path}, where a path may stand for bytes."""
    import pyarrow as pa

    chunks, paths = column.chunks, [None] * len(column)
    if pa.types.is_struct(column.type):
        names = [field.name for field in column.type]
        at = names.index("path")
        paths = [
            path for chunk in chunks for path in chunk.flatten()[at].cast(pa.string()).to_pylist()
        ]
        chunks = [chunk.flatten()[names.index("bytes")] for chunk in chunks]
    cells = pa.concat_arrays([chunk.cast(pa.large_binary()) for chunk in chunks])
    offsets = np.frombuffer(cells.buffers()[1], np.int64)[cells.offset :].tolist()
    data = memoryview(cells.buffers()[2] or b"")

    def read(row: int) -> bytes:
        content = bytes(data[offsets[row] : offsets[row + 1]])
        return content if content or not paths[row] else read_image_file(folder / paths[row])

    chosen_paths = [paths[row] for row in rows]
    are_named = all(chosen_paths) and len(set(chosen_paths)) == len(chosen_paths)
    return EncodedImages(read, rows), make_ids(chosen_paths if are_named else rows)


def _holds_images(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return {"bytes", "path"} <= {field.name for field in kind}
    return is_binary(kind)
