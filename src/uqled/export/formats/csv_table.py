"""`csv`: corrected labels as text, in the source's own table or in one of ids and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.tables.byte_columns import decode_byte_columns
from uqled.data.tables.table_files import read_csv
from uqled.data.tables.text_dialect import detect_dialect
from uqled.export.corrections import CorrectedLabels
from uqled.export.csv_records import read_csv_records
from uqled.export.export_format import ExportFormat, ExportPlan, WriteOptions
from uqled.export.record import number_labels
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
        note = note_own_labels(plan)
        if text is not None and (content := _replace_labels(plan, text, separator)) is not None:
            target.write_bytes(content)
            return {"label": text.label, **note, **_note_header(text)}
        frame, label = _make_frame(plan, text)
        has_header = text is None or text.header is not None
        style = detect_csv_style(plan.predictions.source)
        frame.to_csv(target, index=False, header=has_header, sep=separator, **style)
        return {"label": label, **note, **_note_header(text)}

    def read_class_numbers(self, out: Path, note: Mapping[str, Any]) -> NDArray[np.int32]:
        dialect = detect_dialect(out, header="no" if note.get("header") == "no" else "yes")
        frame = read_csv(out, dialect, dtype=str, keep_default_na=False)
        return number_labels(frame[note["label"]], note, out)


def _note_header(text: CsvText | None) -> dict[str, str]:
    """For the record of a table whose first line does not name the columns."""
    return {"header": "no"} if text is not None and text.header is None else {}


def note_own_labels(plan: ExportPlan) -> dict[str, Any]:
    """For the record of an exported table: which of its rows the run had set aside, and which
    spellings of a class it has."""
    if plan.samples is None:
        return {}
    _, is_aside = plan.samples.list_table_rows(plan.corrected.rows)
    places: list[int] = np.flatnonzero(is_aside).tolist()
    spellings = dict(plan.samples.raw.spellings)
    return {
        **({"set_aside": places} if places else {}),
        **({"spellings": spellings} if spellings else {}),
    }


def find_unchanged(plan: ExportPlan) -> NDArray[np.bool_]:
    """Of the samples that stay, those whose label keeps the source's spelling: the class has
    several spellings, and nobody changed the label."""
    corrected, samples = plan.corrected, plan.samples
    assert samples is not None
    if not samples.raw.spellings:
        return np.zeros(len(corrected.rows), np.bool_)
    is_unchanged: NDArray[np.bool_] = (corrected.codes == samples.codes)[corrected.rows]
    return is_unchanged


def _replace_labels(plan: ExportPlan, text: CsvText, separator: str) -> bytes | None:
    """The source's own bytes with new labels; None if it has another format than the target, or
    cannot be written back as it was read."""
    samples = plan.samples
    assert samples is not None
    is_usual = text.dialect.separator in (",", "\t")
    if is_usual and text.dialect.separator != separator:
        return None
    records = read_csv_records(samples.source["place"], text.dialect, text.label_column)
    entries = text.frame.iloc[:, text.label_column].to_numpy()
    if records is None or len(records.rows) < len(entries):
        return None
    record_entries = [records.get_entry(row) for row in text.positions.tolist()]
    if record_entries != entries.tolist():
        return None
    rows, labels = _list_labels(plan, entries)
    try:
        return records.replace_entries(text.positions[rows].tolist(), labels.tolist())
    except ValueError:  # a class name that the file's encoding or quoting cannot express
        return None


def _list_labels(plan: ExportPlan, entries: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """(rows of the source that the table keeps, their labels as the file writes them).

    `entries` are those of all rows.
    """
    corrected, samples = plan.corrected, plan.samples
    assert samples is not None
    rows, is_aside = samples.list_table_rows(corrected.rows)
    labels = entries[rows]
    labels[~is_aside] = _spell_labels(entries[samples.rows], samples.codes, corrected)
    return rows, labels


def _make_frame(plan: ExportPlan, text: CsvText | None) -> tuple[Any, str]:
    """The table and the name of its column of labels."""
    import pandas as pd

    corrected, samples = plan.corrected, plan.samples
    if text is not None and samples is not None:
        rows, labels = _list_labels(plan, text.frame.iloc[:, text.label_column].to_numpy())
        frame = text.frame.iloc[rows].copy()
        frame.isetitem(text.label_column, labels)
        return frame.set_axis(text.header or frame.columns, axis=1), text.label
    source = read_source_table(samples)
    if source is None or samples is None:
        ids = [plan.predictions.ids[index] for index in corrected.rows]
        return pd.DataFrame({"id": ids, "label": corrected.values}), "label"
    images = find_image_columns(source.table)
    rows, is_aside = samples.list_table_rows(corrected.rows)
    table = decode_byte_columns(source.table)
    frame = table.drop_columns(images).to_pandas().iloc[rows].copy()
    is_own = is_aside.copy()
    is_own[~is_aside] = find_unchanged(plan)
    labels = frame[source.label].to_numpy(copy=True).astype(object)
    labels[~is_own] = corrected.values[~find_unchanged(plan)]
    frame[source.label] = labels if is_own.any() else corrected.values
    if images and "id" not in frame.columns:  # so that rows whose image is left out have a name
        frame.insert(0, "id", samples.raw.ids[rows])
    return frame, source.label


def _spell_labels(
    entries: NDArray[Any], in_source: NDArray[np.int32], corrected: CorrectedLabels
) -> NDArray[Any]:
    """Labels of the samples that stay: as the file writes them, and corrected ones as it writes
    that class elsewhere (`07`, not `7`).

    `in_source` [N] are the class numbers of `entries` [N]: whatever the run was told, a spelling
    is that of the class which the file itself has in the row.
    """
    spelling = corrected.labels.values.astype(str).astype(object)
    for k in np.unique(in_source[in_source >= 0]):  # the most common one, the first among equals
        spelling[k] = Counter(entries[in_source == k].tolist()).most_common(1)[0][0]
    is_changed = corrected.codes != in_source
    return np.where(is_changed, spelling[corrected.codes], entries)[corrected.rows]
