"""`csv`: corrected labels as text, in the source's own table or in one of ids and labels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.table_files import read_csv
from uqled.export.corrections import CorrectedLabels
from uqled.export.csv_records import read_csv_records
from uqled.export.record import number_labels
from uqled.export.registry import ExportFormat, ExportPlan, WriteOptions
from uqled.export.source_samples import (
    CsvText,
    detect_csv_style,
    find_image_columns,
    read_csv_text,
    read_source_table,
)


class CsvFormat(ExportFormat):
    """A CSV keeps every byte but for the labels that change and the rows that leave. Of a Parquet
    table all columns but images are written. Anything else becomes a table of ids and labels."""

    name = "csv"
    file_endings = (".csv", ".tsv")
    needs = "table"

    def write(self, plan: ExportPlan, target: Path, _: WriteOptions) -> dict[str, Any]:
        separator = "\t" if target.suffix.lower() == ".tsv" else ","
        text = read_csv_text(plan.samples)
        if text is not None and (content := _replace_labels(plan, text, separator)) is not None:
            target.write_bytes(content)
            return {"label": text.label}
        frame, label = _make_frame(plan, text)
        style = detect_csv_style(plan.predictions.source)
        frame.to_csv(target, index=False, sep=separator, **style)
        return {"label": label}

    def read_class_numbers(self, out: Path, note: Mapping[str, Any]) -> NDArray[np.int32]:
        frame = read_csv(out, dtype=str, keep_default_na=False)
        return number_labels(frame[note["label"]], note, out)


def _replace_labels(plan: ExportPlan, text: CsvText, separator: str) -> bytes | None:
    """The source's own bytes with other labels; None where it has another form than the target, or
    is not written as it is read."""
    corrected, samples = plan.corrected, plan.samples
    assert samples is not None
    is_usual = text.dialect.separator in (",", "\t")
    if is_usual and text.dialect.separator != separator:
        return None
    records = read_csv_records(samples.source["place"], text.dialect, text.label_column)
    entries = text.frame.iloc[:, text.label_column].to_numpy()
    if records is None or len(records.rows) < len(entries):
        return None
    own = [records.get_entry(row) for row in text.positions.tolist()]
    if own != entries.tolist():
        return None
    labels = _spell_labels(entries[samples.rows], samples.codes, corrected)
    rows = text.positions[samples.rows[corrected.rows]]
    try:
        return records.replace_entries(rows.tolist(), labels.tolist())
    except UnicodeEncodeError:  # a class whose name the file's encoding does not have
        return None


def _make_frame(plan: ExportPlan, text: CsvText | None) -> tuple[Any, str]:
    """The table and the name of its column of labels."""
    import pandas as pd

    corrected, samples = plan.corrected, plan.samples
    ids = [plan.predictions.ids[index] for index in corrected.rows]
    if text is not None and samples is not None:
        entries = text.frame.iloc[:, text.label_column].to_numpy()[samples.rows]
        frame = text.frame.iloc[samples.rows[corrected.rows]].copy()
        frame.isetitem(text.label_column, _spell_labels(entries, samples.codes, corrected))
        return frame.set_axis(text.header, axis=1), text.label
    source = read_source_table(samples)
    if source is None or samples is None:
        return pd.DataFrame({"id": ids, "label": corrected.values}), "label"
    images = find_image_columns(source.table)
    table = source.table.drop_columns(images)
    frame = table.to_pandas().iloc[samples.rows[corrected.rows]].copy()
    frame[source.label] = corrected.values
    if images and "id" not in frame.columns:  # so that rows without their image have a name
        frame.insert(0, "id", ids)
    return frame, source.label


def _spell_labels(
    entries: NDArray[Any], in_source: NDArray[np.int32], corrected: CorrectedLabels
) -> NDArray[Any]:
    """Labels of the samples that stay: as the file writes them, and corrected ones as it writes
    that class elsewhere (`07`, not `7`).

    `in_source` [N] are the class numbers of `entries` [N]: whatever the run was told, a spelling
    is that of the class which the file itself has in the row.
    """
    classes, first = np.unique(in_source, return_index=True)
    spelling = corrected.labels.values.astype(str).astype(object)
    spelling[classes] = entries[first]
    changed = corrected.codes != in_source
    return np.where(changed, spelling[corrected.codes], entries)[corrected.rows]
