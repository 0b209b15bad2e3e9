"""`huggingface`: a data set as the Hugging Face hub has them: Parquet that knows its features."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.raw_dataset import name_source
from uqled.data.readers.hub import read_features
from uqled.export.corrections import CorrectedLabels
from uqled.export.export_format import ExportFormat, ExportPlan, WriteOptions
from uqled.export.file_names import number_repeats, sanitize_name
from uqled.export.source_samples import (
    SourceSamples,
    SourceTable,
    find_image_column,
    read_source_table,
)
from uqled.storage.tables.parquet_tables import read_parquet

_BATCH_IMAGES = 256  # rows that are in memory at a time
_BATCH = 16_384
_SHARD_BYTES = 500_000_000  # as much as the hub's own files hold


class HuggingFaceFormat(ExportFormat):
    """`data/train-*.parquet`, opened by `datasets.load_dataset`. Labels are ClassLabel, images are
    Image with their own bytes. A table keeps its other columns."""

    name = "huggingface"

    def write(self, plan: ExportPlan, target: Path, options: WriteOptions) -> dict[str, Any]:
        import pyarrow.parquet as pq

        corrected, samples = plan.corrected, plan.samples
        assert samples is not None
        source = read_source_table(samples)
        label = "label" if source is None else source.label
        parts = _read_table(source, corrected, samples) if source else _read(corrected, samples)
        data = target / "data"
        data.mkdir()
        features = {} if source is None else _read_features(source.table, samples)
        classes = corrected.class_numbers
        names = number_repeats([corrected.labels.names[k] for k in classes])
        features[label] = {"names": names, "_type": "ClassLabel"}
        if samples.kind == "images":
            image = "image" if source is None else find_image_column(source, samples)
            features[image] = {"_type": "Image"}
        writer, shards, size, at = None, list[Path](), 0, 0
        with options.progress.stage("writing the data set", len(corrected.rows)) as advance:
            for part in parts:
                codes = corrected.codes[corrected.rows[at : at + part.num_rows]]
                at += part.num_rows
                batch = _add_labels(part, label, np.searchsorted(classes, codes), features)
                if writer is None or size > _SHARD_BYTES:
                    if writer is not None:
                        writer.close()
                    shards.append(data / f"{len(shards)}.parquet")
                    writer, size = pq.ParquetWriter(shards[-1], batch.schema), 0
                writer.write_table(batch)
                size += batch.nbytes
                advance(batch.num_rows)
        if writer is not None:
            writer.close()
        split = sanitize_name(samples.source["split"] or "train")
        for number, shard in enumerate(shards):
            shard.rename(data / f"{split}-{number:05d}-of-{len(shards):05d}.parquet")
        return {"label": label, "class_numbers": classes.tolist()}

    def read_class_numbers(self, out: Path, note: Mapping[str, Any]) -> NDArray[np.int32]:
        files = sorted((out / "data").glob("*.parquet"))
        parts = [read_parquet(file, [note["label"]]).column(0).to_numpy() for file in files]
        codes = np.concatenate(parts)
        classes = np.asarray(note.get("class_numbers", range(len(note["classes"]))))
        for numbers, below in ((classes, len(note["classes"])), (codes, len(classes))):
            is_number = numbers.dtype.kind in "iu" and numbers.ndim == 1
            if not is_number or (numbers.size and not 0 <= numbers.min() <= numbers.max() < below):
                raise ValueError(f"its labels are not class numbers below {below}")
        class_numbers: NDArray[np.int32] = classes[codes].astype(np.int32)
        return class_numbers


def _read_table(
    source: SourceTable, corrected: CorrectedLabels, samples: SourceSamples
) -> Iterator[Any]:
    """The source's rows that stay, its images with their bytes."""
    rows = samples.rows[corrected.rows]
    if samples.kind != "images":
        yield from source.iterate_batches(rows, _BATCH)
        return
    name, at = find_image_column(source, samples), 0
    for batch in source.iterate_batches(rows, _BATCH_IMAGES):
        kept_rows = corrected.rows[at : at + batch.num_rows]
        at += batch.num_rows
        place = batch.column_names.index(name)
        yield batch.set_column(place, name, _read_image_cells(samples, kept_rows))


def _read(corrected: CorrectedLabels, samples: SourceSamples) -> Iterator[Any]:
    """Columns for samples that came from no table."""
    import pyarrow as pa

    step = _BATCH_IMAGES if samples.kind == "images" else _BATCH
    for start in range(0, len(corrected.rows), step):
        rows = corrected.rows[start : start + step]
        ids = pa.array([samples.ids[index] for index in rows])
        if samples.kind == "images":
            yield pa.table({"id": ids, "image": _read_image_cells(samples, rows)})
            continue
        inputs = samples.read_inputs(rows)
        if samples.kind == "texts":
            yield pa.table({"id": ids, "text": pa.array(inputs.tolist(), pa.string())})
        else:
            numbers = pa.FixedSizeListArray.from_arrays(
                pa.array(np.ascontiguousarray(inputs).reshape(-1)), inputs.shape[1]
            )
            yield pa.table({"id": ids, "features": numbers.cast(pa.list_(numbers.type.value_type))})


def _read_image_cells(samples: SourceSamples, rows: NDArray[np.intp]) -> Any:
    import pyarrow as pa

    cells = []
    for index in rows.tolist():
        data, ending = samples.read_image(index)
        cells.append(
            {"bytes": data, "path": samples.get_file_name(index) or f"{index:08d}{ending}"}
        )
    return pa.array(cells, pa.struct({"bytes": pa.binary(), "path": pa.string()}))


def _add_labels(batch: Any, label: str, codes: NDArray[Any], features: dict[str, Any]) -> Any:
    """The batch with its labels as class numbers, and a schema that names the features."""
    import pyarrow as pa

    column = pa.array(codes.astype(np.int64))
    if label in batch.column_names:
        batch = batch.set_column(batch.column_names.index(label), label, column)
    else:
        batch = batch.append_column(label, column)
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    return batch.replace_schema_metadata(about)


def _read_features(table: Any, samples: SourceSamples) -> dict[str, Any]:
    """What the source's own metadata says of the columns that it has."""
    features = read_features(table.schema, name_source(samples.source["place"]))
    return {name: features[name] for name in table.column_names if name in features}
