"""`parquet`: corrected labels, beside the source's other columns where it is a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.table_files import read_parquet
from uqled.export.record import number_labels
from uqled.export.registry import ExportFormat, ExportPlan, WriteOptions
from uqled.export.source_samples import read_source_table

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
        at = 0
        field = source.table.schema.field(source.label)
        with pq.ParquetWriter(target, source.table.schema) as writer:
            for batch in source.iterate_batches(samples.rows[corrected.rows], _BATCH):
                column = _cast_labels(corrected.values[at : at + batch.num_rows], field)
                at += batch.num_rows
                position = batch.column_names.index(source.label)
                writer.write_table(batch.set_column(position, field, column))
        return {"label": source.label}

    def read_class_numbers(self, out: Path, note: Mapping[str, Any]) -> NDArray[np.int32]:
        column = read_parquet(out, [note["label"]]).column(0).to_pylist()
        spelling = {value: str(value) for value in note["classes"]}  # 7.0 is how a column has 7
        return number_labels((spelling.get(value, str(value)) for value in column), note, out)


def _cast_labels(values: NDArray[Any], field: Any) -> Any:
    """Labels in the type that the column has."""
    import pyarrow as pa

    column = pa.array(values.tolist())
    if pa.types.is_dictionary(field.type):
        return column.cast(field.type.value_type).dictionary_encode().cast(field.type)
    return column.cast(field.type)
