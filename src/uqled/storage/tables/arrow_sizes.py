"""Computes how much memory the values of an Arrow column take once each is written out.

Dictionaries, runs, views and lists that overlap let a few bytes stand for any number of long
values. What converts a column to NumPy, pandas or Python objects writes them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.limits import check_limit

#: Bytes of an object that stands for a list, a struct or a text within another value, at least.
_OBJECT_BYTES = 64
_VIEW_BYTES = 16  # of a view, which holds a text's length, and its place or the text itself
_TOO_MUCH = 2**62

Sizes = int | NDArray[np.int64]
"""Bytes of each value of an array: one number where all take the same."""


def check_expanded_size(table: Any, subject: str, before: int = 0) -> int:
    """The bytes of a table or batch when its values are written out; refused beyond the limit.

    `before` are those of the batches before, which count, too.
    """
    total = before
    for column in table.columns:
        for chunk in getattr(column, "chunks", [column]):
            total += measure_expanded_bytes(chunk)
            check_limit("memory_bytes", total, subject)
    return total


def join_tables(tables: Iterable[Any], subject: str) -> Any:
    """Tables one below the other, as long as all of them together are within the limit."""
    import pyarrow as pa

    parts, total = [], 0
    for table in tables:
        total = check_expanded_size(table, subject, total)
        parts.append(table)
    return pa.concat_tables(parts, promote_options="default") if len(parts) > 1 else parts[0]


def measure_expanded_bytes(array: Any) -> int:
    """The bytes of all values of an Arrow array, each written out."""
    import pyarrow.types as is_type

    kind = array.type
    is_shared = is_type.is_dictionary(kind) or is_type.is_run_end_encoded(kind) or _is_view(kind)
    if not is_shared and not is_type.is_nested(kind):
        return int(array.nbytes)
    sizes = _measure_values(array)
    if isinstance(sizes, int):
        return sizes * len(array)
    # As floats first: the sum of forged lengths may overflow integers.
    return int(sizes.sum() if sizes.sum(dtype=np.float64) < _TOO_MUCH else _TOO_MUCH)


def _measure_values(array: Any) -> Sizes:
    import pyarrow as pa
    import pyarrow.types as is_type

    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _measure_values(array.storage)
    if is_type.is_dictionary(kind):
        sizes = _measure_values(array.dictionary)
        return _pick_sizes(sizes, _fill_numbers(array.indices)) if len(array.dictionary) else 0
    if is_type.is_run_end_encoded(kind):
        return _pick_sizes(_measure_values(array.values), _repeat_runs(array))
    if is_type.is_struct(kind):
        return sum((_measure_values(part) for part in array.flatten()), start=_OBJECT_BYTES)
    if is_type.is_fixed_size_list(kind):
        sizes = _measure_values(array.flatten())
        longest = sizes if isinstance(sizes, int) else int(sizes.max(initial=0))
        return longest * int(kind.list_size) + _OBJECT_BYTES
    if is_type.is_map(kind):
        sizes = _measure_values(array.keys) + _measure_values(array.items) + _OBJECT_BYTES
        return _sum_lists(sizes, _fill_numbers(array.offsets))
    if is_type.is_list(kind) or is_type.is_large_list(kind):
        return _sum_lists(_measure_values(array.values), _fill_numbers(array.offsets))
    if _is_view(kind) and hasattr(array, "sizes"):
        starts = _fill_numbers(array.offsets)
        stops = starts + _fill_numbers(array.sizes)
        return _sum_lists(_measure_values(array.values), starts, stops)
    if _is_view(kind) or is_type.is_large_binary(kind) or is_type.is_large_string(kind):
        return _measure_texts(array)
    if is_type.is_binary(kind) or is_type.is_string(kind):
        return _measure_texts(array)
    if is_type.is_union(kind):
        raise ValueError(f"it has a column of type {kind}")
    return 8 if is_type.is_null(kind) else max(int(kind.bit_width) // 8, 1)


def _measure_texts(array: Any) -> NDArray[np.int64]:
    """Bytes of each text, and of the object that it becomes."""
    import pyarrow.compute as pc

    if _is_view(array.type):  # each begins with its length
        lengths = np.frombuffer(array.buffers()[1], np.int32)[:: _VIEW_BYTES // 4]
        lengths = lengths[array.offset : array.offset + len(array)].astype(np.int64)
        return np.where(array.is_valid().to_numpy(zero_copy_only=False), lengths, 0) + _OBJECT_BYTES
    return _fill_numbers(pc.binary_length(array)) + _OBJECT_BYTES


def _sum_lists(
    child: Sizes, starts: NDArray[np.int64], stops: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Bytes of each list, whose values are those from its start to its stop.

    Without stops, each list ends where the next one starts.
    """
    if stops is None:
        starts, stops = starts[:-1], starts[1:]
    if isinstance(child, int):
        return (stops - starts) * child + _OBJECT_BYTES
    totals = np.concatenate([np.zeros(1, np.int64), np.cumsum(child)])
    sizes: NDArray[np.int64] = totals[stops] - totals[starts] + _OBJECT_BYTES
    return sizes


def _repeat_runs(array: Any) -> NDArray[np.intp]:
    """For each value of a run-end encoded array, the number of its run."""
    ends = array.run_ends.to_numpy(zero_copy_only=False).astype(np.int64) - array.offset
    lengths = np.diff(ends.clip(0, len(array)), prepend=0)
    return np.repeat(np.arange(len(ends)), lengths)


def _pick_sizes(sizes: Sizes, indices: NDArray[Any]) -> Sizes:
    return sizes if isinstance(sizes, int) else sizes[indices]


def _fill_numbers(numbers: Any) -> NDArray[np.int64]:
    """Whole numbers of an Arrow array; 0 where there is none."""
    array: NDArray[np.int64] = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return array


def _is_view(kind: Any) -> bool:
    """Whether values are places in a buffer that they may share; pyarrow 16 has no such types."""
    return str(kind).partition("<")[0].endswith("_view")
