"""The record of an export: every change, the options, and the way back to the given labels.

    changes.csv    index, id, action, from, to, because, reviewer, score: one row per change
    changes.json   what was exported, of which run, with which options; the classes
    files.csv      of folders of images: index, id, file, label of every sample that stayed

Beside a single file, say `clean.csv`, they are called `clean.csv.changes.csv` and
`clean.csv.changes.json`.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError, InputError
from uqled.export.corrections import CorrectedLabels, Correction, restore_labels
from uqled.export.formats import EXPORT_FORMATS
from uqled.storage.atomic import write_json
from uqled.storage.reading import explain_file_problems, name_file, read_json, read_text

_COLUMNS = ("index", "id", "action", "from", "to", "because", "reviewer", "score")
_FORMAT = 1  # of the record
_UNFINISHED_NAME = "unfinished"


def name_record(out: Path) -> tuple[Path, Path]:
    """The paths of the table of changes and of the note about it, for an export to `out`."""
    if out.is_dir():
        return out / "changes.csv", out / "changes.json"
    return out.with_name(f"{out.name}.changes.csv"), out.with_name(f"{out.name}.changes.json")


def write_record(
    table: Path, note_file: Path, corrected: CorrectedLabels, note: dict[str, Any]
) -> None:
    """Write the table of changes and the note; `note` is further content for it."""
    changes = corrected.corrections
    values = [str(value) for value in corrected.labels.values.tolist()]
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for c in changes:
            to = "" if c.label is None else values[c.label]
            score = "" if c.score is None else repr(c.score)
            who = c.reviewer or ""
            row = (c.index, c.id, c.action, values[c.given], to, c.because, who, score)
            writer.writerow(row)
    content = {
        "format": _FORMAT,
        "uqled": version("uqled"),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        **note,
        "method": corrected.method,
        "unreviewed": corrected.unreviewed,
        "samples": len(corrected),
        "left": len(corrected.rows),
        "relabelled": sum(c.action == "relabel" for c in changes),
        "dropped": sum(c.action == "drop" for c in changes),
        "classes": corrected.labels.values.tolist(),
        "names": list(corrected.labels.names),
    }
    # In place: renaming a file over a temporary one would lose its lock.
    note_file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def mark_unfinished(new_note: Path, note_file: Path) -> None:
    """Put a copy of the new note in its place, marked as unfinished until the last rename.

    An export that is killed before then leaves the mark: its data may be of another export.
    """
    write_json(note_file, read_json(new_note) | {_UNFINISHED_NAME: True})


def read_corrections(out: Path | str) -> list[Correction]:
    """Read every change of an export from its record."""
    note, table = _read_note(Path(out)), name_record(Path(out))[0]
    numbers = _number_classes(note)
    with explain_file_problems(table, "Export again"):
        return [_parse_correction(row, numbers) for row in read_record_rows(table, _COLUMNS)]


def restore_given_labels(out: Path | str) -> NDArray[Any]:
    """The given labels [N] of all samples in the run's order, without the run.

    Read from the labels of an export and the record beside them. Formats in which labels are as
    they were given are refused.
    """
    out = Path(out)
    note = _read_note(out)
    form = EXPORT_FORMATS.load(note["to"])()
    with explain_file_problems(out, "Export again"):
        codes = form.read_class_numbers(out, note)
    corrections = read_corrections(out)
    if len(codes) != note["left"]:
        raise FileError(
            f"export {str(out)!r}",
            f"has {len(codes):,} samples, and its record says {note['left']:,}",
            "Restore labels before samples are added or removed",
        )
    return np.asarray(note["classes"])[restore_labels(corrections, codes)]


def _read_note(out: Path) -> dict[str, Any]:
    """The note, checked: it may have been edited."""
    note_file = name_record(out)[1]
    try:
        note = read_json(note_file)
        _check_note(note)
    except (FileError, InputError, ValueError, TypeError, KeyError) as error:
        why = error.problem if isinstance(error, FileError) else error
        raise FileError(
            name_file(note_file), f"is not a record of an export ({why})", "Name what was exported"
        ) from error
    if _UNFINISHED_NAME in note:
        raise FileError(
            f"export {str(out)!r}",
            "was interrupted, so its record may belong to other data",
            "Export again, with --overwrite",
        )
    content: dict[str, Any] = note
    return content


def _check_note(note: Any) -> None:
    if not isinstance(note, dict):
        raise TypeError(f"a {type(note).__name__}")
    if note["format"] != _FORMAT:
        raise ValueError(f"format {note['format']!r:.40}")
    classes = note["classes"]
    is_plain = isinstance(classes, list) and all(
        isinstance(value, str | int | float) for value in classes
    )
    if not is_plain or len(set(map(str, classes))) < len(classes):
        raise ValueError("classes that are not class names")
    label = {"label": str} if "label" in note else {}  # which only tables have
    for key, kind in {"to": str, "left": int, **label}.items():
        if not isinstance(note.get(key), kind):
            raise TypeError(f"{note.get(key)!r:.40} as {key!r}")
    set_aside = note.get("set_aside", [])
    if not isinstance(set_aside, list) or not all(type(at) is int and at >= 0 for at in set_aside):
        raise TypeError(f"{set_aside!r:.40} as 'set_aside'")
    spellings = note.get("spellings", {})
    if not isinstance(spellings, dict) or not set(spellings.values()) <= set(map(str, classes)):
        raise TypeError(f"{spellings!r:.40} as 'spellings'")
    note["left"] = int(note["left"])


def read_record_rows(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a table that we wrote, whose columns are these."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
    rows = list(reader)
    if reader.fieldnames != list(columns):
        raise ValueError(f"its columns are {reader.fieldnames!r:.80}")
    if any(None in row or None in row.values() for row in rows):
        raise ValueError("it has a row of another length")
    return rows


def _number_classes(note: Mapping[str, Any]) -> dict[str, int]:
    """Class numbers by how the classes are written."""
    return {str(value): number for number, value in enumerate(note["classes"])}


def _parse_correction(row: dict[str, str], numbers: dict[str, int]) -> Correction:
    action = row["action"]
    if action not in ("relabel", "drop"):
        raise ValueError(f"action {action!r}")
    return Correction(
        int(row["index"]),
        row["id"],
        action,  # type: ignore[arg-type]
        numbers[row["from"]],
        None if action == "drop" else numbers[row["to"]],
        row["because"],
        row["reviewer"] or None,
        float(row["score"]) if row["score"] else None,
    )


def number_labels(labels: Iterable[str], note: Mapping[str, Any], out: Path) -> NDArray[np.int32]:
    """The class numbers of labels that an export holds as text, without rows set aside."""
    numbers, set_aside = _number_classes(note), set(note.get("set_aside", []))
    spellings = note.get("spellings", {})
    numbers |= {spelling: numbers[name] for spelling, name in spellings.items()}
    try:
        samples = [label for at, label in enumerate(labels) if at not in set_aside]
        return np.array([numbers[label] for label in samples], np.int32)
    except KeyError as error:
        raise FileError(
            f"export {str(out)!r}",
            f"has the label {error.args[0]!r}, which is not a class of its record",
            "Restore labels before they are renamed",
        ) from error
