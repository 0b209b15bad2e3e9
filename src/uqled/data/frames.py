"""Frames of any library: add columns or replace labels, and give back the same kind of frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from uqled.errors import InputError

#: The method that loads a lazy frame, for libraries that do not call it `collect`.
_COLLECTING_CALLS = {
    "dask": "compute",
    "duckdb": "df",
    "ibis": "to_pandas",
    "pyspark": "toPandas",
    "pyspark[connect]": "toPandas",
}


class OpenFrame(Protocol):
    """What is done to a frame, whichever library it is of."""

    names: list[str]

    def __len__(self) -> int: ...

    def read_column(self, name: str) -> list[Any]:
        """The entries of a column."""
        ...

    def add_columns(self, columns: Mapping[str, list[Any]]) -> Any:
        """The frame with more columns; one that has the name of another replaces it."""
        ...

    def replace_column(self, name: str, entries: list[Any], is_kept: NDArray[np.bool_]) -> Any:
        """The frame with other entries in a column, which keeps its type, and the rows to keep."""
        ...


def open_frame(frame: Any) -> OpenFrame:
    """A pandas, polars or Arrow frame or a Hugging Face `Dataset`."""
    import narwhals as nw

    if is_hugging_face(frame) and hasattr(frame, "__len__"):
        return _OpenDataset(frame)
    if is_record_batch(frame):
        return _OpenBatch(frame)
    native = nw.from_native(frame, pass_through=True, eager_only=False)
    if isinstance(native, nw.LazyFrame):
        refuse_lazy_frame("frame", frame, native.implementation)
    if not isinstance(native, nw.DataFrame):
        raise InputError(
            "frame",
            f"is a {type(frame).__name__}",
            "Pass a pandas, polars or Arrow frame or a Hugging Face Dataset; errors.to_frame() has "
            "a row for each sample",
        )
    return _OpenTable(frame)


def refuse_lazy_frame(argument: str, frame: Any, implementation: Any) -> NoReturn:
    """Refuse a frame whose rows are not computed yet; `implementation` is narwhals' name of it."""
    call = _COLLECTING_CALLS.get(implementation.value, "collect")
    fix = f"Collect it first: frame.{call}()"
    raise InputError(argument, f"is a lazy {type(frame).__name__}", fix)


def is_hugging_face(samples: Any) -> bool:
    """Whether this is a `datasets.Dataset`, or one that streams."""
    return hasattr(samples, "features") and hasattr(samples, "with_format")


def is_record_batch(samples: Any) -> bool:
    """Whether this is a batch of Arrow, which other libraries do not take for a frame."""
    kind = type(samples)
    return kind.__name__ == "RecordBatch" and kind.__module__.startswith("pyarrow")


class _OpenTable:
    """A frame that narwhals knows."""

    def __init__(self, frame: Any) -> None:
        import narwhals as nw

        self._frame = frame
        self._has_index = hasattr(frame, "index")
        # narwhals aligns pandas columns by their index
        plain_frame = frame.reset_index(drop=True) if self._has_index else frame
        if self._has_index:
            plain_frame.columns = [str(name) for name in plain_frame.columns]
        self._native = nw.from_native(plain_frame, eager_only=True)
        self.names: list[str] = self._native.columns

    def __len__(self) -> int:
        return len(self._native)

    def read_column(self, name: str) -> list[Any]:
        entries: list[Any] = self._native[name].to_list()
        return entries

    def add_columns(self, columns: Mapping[str, list[Any]]) -> Any:
        import narwhals as nw

        backend = self._native.implementation
        series = [
            nw.new_series(name, entries, backend=backend) for name, entries in columns.items()
        ]
        return self._restore_frame(self._native.with_columns(*series), slice(None))

    def replace_column(self, name: str, entries: list[Any], is_kept: NDArray[np.bool_]) -> Any:
        table = self._native.with_columns(self._make_column(name, entries))
        if not is_kept.all():  # Arrow cannot filter columns of every type
            table = table.filter(is_kept.tolist())
        return self._restore_frame(table, is_kept)

    def _make_column(self, name: str, entries: list[Any]) -> Any:
        """A column of the library's own type, which may say more than that of narwhals."""
        import narwhals as nw

        old = self._native[name]
        native: Any = old.to_native()
        if self._has_index:
            return nw.from_native(
                type(native)(entries, name=name, dtype=native.dtype), series_only=True
            )
        if old.implementation.is_pyarrow():
            import pyarrow as pa

            column = pa.chunked_array([pa.array(entries, type=native.type)])
            return nw.from_native(column, series_only=True).alias(name)
        return nw.new_series(name, entries, old.dtype, backend=old.implementation)

    def _restore_frame(self, table: Any, rows: Any) -> Any:
        native = table.to_native()
        if self._has_index:
            new_names = [name for name in table.columns if name not in self.names]
            native.columns = [*self._frame.columns, *new_names]
            return native.set_axis(self._frame.index[rows], axis=0)
        return native


class _OpenBatch(_OpenTable):
    """A record batch, as a table of one batch."""

    def __init__(self, frame: Any) -> None:
        import pyarrow as pa

        super().__init__(pa.Table.from_batches([frame]))

    def _restore_frame(self, table: Any, rows: Any) -> Any:
        return super()._restore_frame(table, rows).combine_chunks().to_batches()[0]


class _OpenDataset:
    """A `datasets.Dataset`: what it holds beside the columns concerned is not read."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.names: list[str] = list(dataset.column_names)

    def __len__(self) -> int:
        return len(self._dataset)

    def read_column(self, name: str) -> list[Any]:
        column = self._dataset.select_columns([name]).with_format("arrow")[:][name]
        entries: list[Any] = column.to_pylist()
        return entries

    def add_columns(self, columns: Mapping[str, list[Any]]) -> Any:
        dataset = self._dataset.remove_columns([name for name in columns if name in self.names])
        for name, entries in columns.items():
            dataset = dataset.add_column(name, entries)
        return dataset

    def replace_column(self, name: str, entries: list[Any], is_kept: NDArray[np.bool_]) -> Any:
        feature = self._dataset.features[name]
        dataset = self._dataset.remove_columns([name]).add_column(name, entries, feature=feature)
        dataset = dataset.select_columns(self.names)
        return dataset if is_kept.all() else dataset.select(np.flatnonzero(is_kept))
