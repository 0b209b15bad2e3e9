"""A cleaned data set as the Hugging Face hub has them: Parquet that knows its features."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.formats import name_place
from uqled.data.hub import read_features
from uqled.export.cleaning import Cleaning
from uqled.export.names import distinct, safe_name
from uqled.export.samples import Samples, SourceTable, image_column, source_table
from uqled.progress import Progress

_BATCH_IMAGES = 256  # rows that are in memory at a time
_BATCH = 16_384
_SHARD_BYTES = 500_000_000  # as much as the hub's own files hold


def write_huggingface(folder: Path, done: Cleaning, samples: Samples, *, progress: Progress) -> str:
    """Write `data/train-*.parquet`, opened by `datasets.load_dataset`; returns the label column.

    Labels are ClassLabel, images are Image with their own bytes. A table keeps its other columns.
    """
    import pyarrow.parquet as pq

    found = source_table(samples)
    label = "label" if found is None else found.label
    columns = _of_table(found, done, samples) if found else _of_inputs(done, samples)
    split = samples.source["split"] or "train"
    data = folder / "data"
    data.mkdir()
    features = {} if found is None else _features(found.table, samples)
    features[label] = {"names": distinct(done.labels.names), "_type": "ClassLabel"}
    if samples.kind == "images":
        image = "image" if found is None else image_column(found, samples)
        features[image] = {"_type": "Image"}
    writer, shards, size, at = None, list[Path](), 0, 0
    with progress.stage("writing the data set", len(done.rows)) as advance:
        for part in columns:
            codes = done.codes[done.rows[at : at + part.num_rows]]
            at += part.num_rows
            batch = _finished(part, label, codes, features)
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
    for number, shard in enumerate(shards):
        shard.rename(data / f"{safe_name(split)}-{number:05d}-of-{len(shards):05d}.parquet")
    return label


def _of_table(found: SourceTable, done: Cleaning, samples: Samples) -> Iterator[Any]:
    """The source's rows that stay, its images with their bytes."""
    rows = samples.rows[done.rows]
    if samples.kind != "images":
        yield from found.batches(rows, _BATCH)
        return
    name, at = image_column(found, samples), 0
    for batch in found.batches(rows, _BATCH_IMAGES):
        chosen = done.rows[at : at + batch.num_rows]
        at += batch.num_rows
        place = batch.column_names.index(name)
        yield batch.set_column(place, name, _image_cells(samples, chosen))


def _of_inputs(done: Cleaning, samples: Samples) -> Iterator[Any]:
    """Columns for samples that came from no table."""
    import pyarrow as pa

    step = _BATCH_IMAGES if samples.kind == "images" else _BATCH
    for start in range(0, len(done.rows), step):
        chosen = done.rows[start : start + step]
        ids = pa.array([samples.ids[index] for index in chosen])
        if samples.kind == "images":
            yield pa.table({"id": ids, "image": _image_cells(samples, chosen)})
            continue
        inputs = samples.inputs(chosen)
        if samples.kind == "texts":
            yield pa.table({"id": ids, "text": pa.array(inputs.tolist(), pa.string())})
        else:
            numbers = pa.FixedSizeListArray.from_arrays(
                pa.array(np.ascontiguousarray(inputs).reshape(-1)), inputs.shape[1]
            )
            yield pa.table({"id": ids, "features": numbers.cast(pa.list_(numbers.type.value_type))})


def _image_cells(samples: Samples, chosen: NDArray[np.intp]) -> Any:
    import pyarrow as pa

    cells = []
    for index in chosen.tolist():
        data, ending = samples.image(index)
        cells.append({"bytes": data, "path": samples.name(index) or f"{index:08d}{ending}"})
    return pa.array(cells, pa.struct({"bytes": pa.binary(), "path": pa.string()}))


def _finished(batch: Any, label: str, codes: NDArray[np.int32], features: dict[str, Any]) -> Any:
    """The batch with its labels as class numbers, and a schema that names the features."""
    import pyarrow as pa

    column = pa.array(codes.astype(np.int64))
    if label in batch.column_names:
        batch = batch.set_column(batch.column_names.index(label), label, column)
    else:
        batch = batch.append_column(label, column)
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    return batch.replace_schema_metadata(about)


def _features(table: Any, samples: Samples) -> dict[str, Any]:
    """What the source's own metadata says of the columns that it has."""
    described = read_features(table.schema, name_place(samples.source["place"]))
    return {name: described[name] for name in table.column_names if name in described}
