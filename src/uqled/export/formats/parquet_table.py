"""`parquet`: corrected labels, beside the source's other columns where it is a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.tables.byte_columns import decode_byte_columns
from uqled.errors import InputError
from uqled.export.export_format import ExportFormat, ExportPlan, WriteOptions
from uqled.export.formats.csv_table import find_unchanged, note_own_labels
from uqled.export.record import number_labels
from uqled.export.source_samples import read_source_table
from uqled.storage.tables.parquet_tables import read_parquet

_BATCH = 8192  # rows that are in memory at a time


class ParquetFormat(ExportFormat):
    name = "parquet"
    file_endings = (".parquet",)
    needs = "table"

    def write(self, plan: ExportPlan, target: Path, _: WriteOptions) -> dict[str, Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        corrected, samples = plan.corrected, plan.samples
        source = read_source_table(samples)
        if source is None or samples is None:
            ids = [plan.predictions.ids[index] for index in corrected.rows]
            pq.write_table(pa.table({"id": ids, "label": corrected.values.tolist()}), target)
            return {"label": "label"}
        at = n_samples = 0
        field = source.table.schema.field(source.label)
        rows, is_aside = samples.list_table_rows(corrected.rows)
        is_unchanged = find_unchanged(plan)
        with pq.ParquetWriter(target, source.table.schema) as writer:
            for batch in source.iterate_batches(rows, _BATCH):
                aside = is_aside[at : at + batch.num_rows]
                end = n_samples + int(np.count_nonzero(~aside))
                position = batch.column_names.index(source.label)
                column = _cast_labels(corrected.values[n_samples:end], field)
                is_own = aside.copy()
                is_own[~aside] = is_unchanged[n_samples:end]
                if is_own.any():
                    column = _keep_labels(batch.column(position), column, aside, is_own)
                writer.write_table(batch.set_column(position, field, column))
                at, n_samples = at + batch.num_rows, end
        return {"label": source.label, **note_own_labels(plan)}

    def read_class_numbers(self, out: Path, note: Mapping[str, Any]) -> NDArray[np.int32]:
        column = decode_byte_columns(read_parquet(out, [note["label"]])).column(0).to_pylist()
        spelling = {value: str(value) for value in note["classes"]}  # a float column holds 7 as 7.0
        return number_labels((spelling.get(value, str(value)) for value in column), note, out)


def _keep_labels(
    labels_before: Any, labels: Any, is_aside: NDArray[np.bool_], is_own: NDArray[np.bool_]
) -> Any:
    """The labels of a batch: where `is_own` as they were, and else `labels`, which those that the
    run had set aside have none of."""
    import pyarrow as pa

    together = pa.chunked_array([labels_before.combine_chunks().cast(labels.type), labels])
    places = np.where(
        is_own, np.arange(len(labels_before)), len(labels_before) + np.cumsum(~is_aside) - 1
    )
    return together.take(pa.array(places))


def _cast_labels(values: NDArray[Any], field: Any) -> Any:
    """Labels in the type that the column has."""
    import pyarrow as pa

    column = pa.array(values.tolist())
    if pa.types.is_string(column.type) and pa.types.is_integer(field.type):
        raise InputError(
            "to",
            f"is parquet, whose column {field.name!r} holds numbers, and a class has a new name",
            "Rename it to a number, or export csv",
        )
    if pa.types.is_dictionary(field.type):
        return column.cast(field.type.value_type).dictionary_encode().cast(field.type)
    return column.cast(field.type)
