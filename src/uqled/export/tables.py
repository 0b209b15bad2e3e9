"""Corrected labels as CSV or Parquet: the source's own table, or one of ids and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.result import LabelErrors
from uqled.export.cleaning import Cleaning
from uqled.export.samples import Samples, csv_manner, image_columns, source_table, written_csv
from uqled.storage.run import Predictions

_BATCH = 8192  # rows of a table, written at a time


def write_csv(path: Path, done: Cleaning, predictions: Predictions, samples: Samples | None) -> str:
    """Write corrected labels as text; returns the column that holds them.

    `samples` are those of a source that is a table. A CSV keeps its columns and every entry as it
    is written but for the labels that change. Of a Parquet table all columns but images are
    written. Anything else becomes a table of ids and labels.
    """
    frame, label = _frame(done, predictions, samples)
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    frame.to_csv(path, index=False, sep=separator, **csv_manner(predictions.source))
    return label


def write_parquet(
    path: Path, done: Cleaning, predictions: Predictions, samples: Samples | None
) -> str:
    """Write corrected labels, and the source's other columns where it is a table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = source_table(samples)
    if found is None or samples is None:
        columns = {"id": _kept_ids(done, predictions), "label": done.values.tolist()}
        pq.write_table(pa.table(columns), path)
        return "label"
    at = 0
    field = found.table.schema.field(found.label)
    with pq.ParquetWriter(path, found.table.schema) as writer:
        for batch in found.batches(samples.rows[done.rows], _BATCH):
            column = _as_field(done.values[at : at + batch.num_rows], field)
            at += batch.num_rows
            place = batch.column_names.index(found.label)
            writer.write_table(batch.set_column(place, field, column))
    return found.label


def write_cleanlab(
    path: Path, done: Cleaning, predictions: Predictions, errors: LabelErrors, decided: set[int]
) -> None:
    """Write the columns of cleanlab's tables of label issues, one row per sample.

    A decision wins over the flag: a label that somebody kept is no issue, one that somebody
    changed is one.
    """
    import pandas as pd

    issue = errors.mask.copy()
    issue[list(decided)] = False
    issue[[c.index for c in done.changes if c.index in decided]] = True
    corrected = pd.Series(done.labels.values[done.codes]).astype(object)
    corrected[~done.kept] = None
    frame = pd.DataFrame(
        {
            "id": predictions.ids,
            "is_label_issue": issue,
            "label_score": errors.scores,  # as Datalab names it
            "label_quality": errors.scores,  # as CleanLearning names it
            "given_label": errors.given,
            "predicted_label": errors.suggested,
            "corrected_label": corrected.convert_dtypes(),
        }
    )
    if path.suffix.lower() == ".csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)


def _frame(done: Cleaning, predictions: Predictions, samples: Samples | None) -> tuple[Any, str]:
    import pandas as pd

    written = written_csv(samples)
    if written is not None and samples is not None:
        texts = written.frame.iloc[:, written.place].to_numpy()[samples.rows]
        frame = written.frame.iloc[samples.rows[done.rows]].copy()
        frame.isetitem(written.place, _label_texts(texts, samples.codes, done))
        return frame.set_axis(written.header, axis=1), written.label
    found = source_table(samples)
    if found is None or samples is None:
        columns = {"id": _kept_ids(done, predictions), "label": done.values}
        return pd.DataFrame(columns), "label"
    images = image_columns(found.table)
    table = found.table.drop_columns(images)
    frame = table.to_pandas().iloc[samples.rows[done.rows]].copy()
    frame[found.label] = done.values
    if images and "id" not in frame.columns:  # what was left out still has a name
        frame.insert(0, "id", _kept_ids(done, predictions))
    return frame, found.label


def _label_texts(texts: NDArray[Any], in_source: NDArray[np.int32], done: Cleaning) -> NDArray[Any]:
    """Labels of the samples that stay: as the file writes them, and changed ones as it writes that
    class elsewhere (`07`, not `7`).

    `in_source` [N] are the class numbers of `texts` [N]: whatever the run was told, a spelling is
    that of the class which the file itself has in the row.
    """
    classes, first = np.unique(in_source, return_index=True)
    written = done.labels.values.astype(str).astype(object)
    written[classes] = texts[first]
    return np.where(done.codes != in_source, written[done.codes], texts)[done.rows]


def _kept_ids(done: Cleaning, predictions: Predictions) -> list[str]:
    return [predictions.ids[index] for index in done.rows]


def _as_field(values: NDArray[Any], field: Any) -> Any:
    """Labels in the type that the column has."""
    import pyarrow as pa

    column = pa.array(values.tolist())
    if pa.types.is_dictionary(field.type):
        return column.cast(field.type.value_type).dictionary_encode().cast(field.type)
    return column.cast(field.type)
