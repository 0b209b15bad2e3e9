"""Columns of bytes that hold text, as some writers of Parquet, HDF5 and NumPy leave them."""

from __future__ import annotations

from typing import Any

_SAMPLED_CELLS = 100  # that show whether a column can be text


def decode_byte_columns(table: Any) -> Any:
    """An Arrow table whose columns of bytes are strings where all their bytes are text in UTF-8.

    An encoded image never is: each format of images begins with bytes that are no UTF-8, or has
    zeros in its header.
    """
    import pyarrow as pa

    for at, field in enumerate(table.schema):
        is_dictionary = pa.types.is_dictionary(field.type)
        if not is_binary(field.type.value_type if is_dictionary else field.type):
            continue
        column = table.column(at)
        try:
            if is_dictionary:
                chunks = [_decode_dictionary(chunk) for chunk in column.chunks]
                kind = pa.dictionary(field.type.index_type, pa.string())
                texts = pa.chunked_array(chunks, kind)
            elif _begins_with_text(column):
                texts = column.cast(pa.large_binary()).cast(pa.large_string())
            else:
                continue
        except pa.ArrowInvalid:  # bytes that are no UTF-8
            continue
        table = table.set_column(at, field.with_type(texts.type), texts)
    return table


def decode_byte_objects(frame: Any) -> Any:
    """The same for a pandas frame, whose bytes are objects."""
    for at, dtype in enumerate(frame.dtypes):
        column = frame.iloc[:, at]
        is_object = getattr(dtype, "kind", "") == "O"
        first = column.first_valid_index() if is_object else None
        if first is None or not isinstance(column[first], bytes):
            continue
        if all(isinstance(cell, bytes) and _is_text(cell) for cell in column.dropna()):
            frame.isetitem(at, column.map(bytes.decode, na_action="ignore"))
    return frame


def is_binary(kind: Any) -> bool:
    """Whether an Arrow type is one of bytes, of any length."""
    import pyarrow as pa

    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or str(kind) == "binary_view"
    )


def _begins_with_text(column: Any) -> bool:
    cells = [cell for cell in column.slice(0, _SAMPLED_CELLS).to_pylist() if cell]
    return bool(cells) and all(_is_text(cell) for cell in cells)


def _is_text(cell: bytes) -> bool:
    try:
        return "\0" not in cell.decode()
    except UnicodeDecodeError:
        return False


def _decode_dictionary(chunk: Any) -> Any:
    import pyarrow as pa

    words = chunk.dictionary.cast(pa.large_binary()).cast(pa.large_string()).cast(pa.string())
    return pa.DictionaryArray.from_arrays(chunk.indices, words)
