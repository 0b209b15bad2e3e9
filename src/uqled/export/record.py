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
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.table_files import read_csv, read_parquet
from uqled.errors import FileError
from uqled.export.cleaning import Change, Cleaning, restored
from uqled.storage.atomic import write_json
from uqled.storage.reading import explain_file_problems, name_file, read_json, read_text

_COLUMNS = ("index", "id", "action", "from", "to", "because", "reviewer", "score")
_FORMAT = 1  # of the record
_UNFINISHED = "unfinished"


@dataclass(frozen=True, order=True)
class FileRow:
    """Where a sample's file went."""

    index: int
    id: str
    file: str
    label: str


def record_paths(out: Path) -> tuple[Path, Path]:
    """The table of changes and what is said about it, of an export to `out`."""
    if out.is_dir():
        return out / "changes.csv", out / "changes.json"
    return out.with_name(f"{out.name}.changes.csv"), out.with_name(f"{out.name}.changes.json")


def write_record(table: Path, note: Path, done: Cleaning, about: dict[str, Any]) -> None:
    """Write the table of changes and what is said about it; `about` is what else to say."""
    values = [str(value) for value in done.labels.values.tolist()]
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for c in done.changes:
            to = "" if c.label is None else values[c.label]
            score = "" if c.score is None else repr(c.score)
            who = c.reviewer or ""
            row = (c.index, c.id, c.action, values[c.given], to, c.because, who, score)
            writer.writerow(row)
    content = {
        "format": _FORMAT,
        "uqled": version("uqled"),
        "written": datetime.now(UTC).isoformat(timespec="seconds"),
        **about,
        "method": done.method,
        "flags": done.flags,
        "samples": len(done),
        "left": len(done.rows),
        "relabelled": sum(c.action == "relabel" for c in done.changes),
        "dropped": sum(c.action == "drop" for c in done.changes),
        "classes": done.labels.values.tolist(),
        "names": list(done.labels.names),
    }
    # As it stands: a file that is renamed over a temporary one would lose its lock.
    note.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def mark_unfinished(written: Path, note: Path) -> None:
    """Put a copy of the note that was `written` in its place, which says that more will follow.

    Whoever is killed before the last rename leaves that: it refuses to lead back from data that
    it may not belong to.
    """
    write_json(note, read_json(written) | {_UNFINISHED: True})


def write_files(path: Path, rows: Iterable[FileRow]) -> None:
    """Write which file each sample that stayed is."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(FileRow))
        writer.writerows(map(astuple, rows))


def read_changes(out: Path | str) -> list[Change]:
    """Every change of an export, as its record has it."""
    about, table = _about(Path(out)), record_paths(Path(out))[0]
    number = _numbers(about)
    with explain_file_problems(table, "Export again"):
        return [_change(row, number) for row in _rows(table, _COLUMNS)]


def given_labels(out: Path | str) -> NDArray[Any]:
    """The labels [N] as they were given, of all samples in the run's order.

    Undoes an export of the kinds csv, parquet, folder, huggingface and fiftyone: from its labels
    and the record beside them, without the run.
    """
    out = Path(out)
    about = _about(out)
    reader = _READERS.get(about["to"])
    if reader is None:
        raise FileError(
            f"export {str(out)!r}",
            f"is of the kind {about['to']!r}, in which labels are as they were given",
            "Read them there",
        )
    with explain_file_problems(out, "Export again"):
        codes = reader(out, about)
    changes = read_changes(out)
    if len(codes) != about["left"]:
        raise FileError(
            f"export {str(out)!r}",
            f"has {len(codes):,} samples, and its record says {about['left']:,}",
            "Undo it before samples are added or taken away",
        )
    return np.asarray(about["classes"])[restored(changes, codes)]


def _about(out: Path) -> dict[str, Any]:
    """What the note says, checked: it may have been edited."""
    note = record_paths(out)[1]
    try:
        about = read_json(note)
        _check_note(about)
    except (FileError, ValueError, TypeError, KeyError) as error:
        why = error.problem if isinstance(error, FileError) else error
        raise FileError(
            name_file(note), f"is no record of an export ({why})", "Name what was exported"
        ) from error
    if _UNFINISHED in about:
        raise FileError(
            f"export {str(out)!r}",
            "was interrupted, so that its record may belong to other data",
            "Export again, with --overwrite",
        )
    content: dict[str, Any] = about
    return content


def _check_note(about: Any) -> None:
    if not isinstance(about, dict):
        raise TypeError(f"a {type(about).__name__}")
    if about["format"] != _FORMAT:
        raise ValueError(f"format {about['format']!r:.40}")
    classes = about["classes"]
    is_plain = isinstance(classes, list) and all(
        isinstance(value, str | int | float) for value in classes
    )
    if not is_plain or len(set(map(str, classes))) < len(classes):
        raise ValueError("classes that are none")
    kinds = {"to": str, "left": int, "label": str}
    for key, kind in kinds.items():
        if not isinstance(about.get(key, kind()), kind):
            raise TypeError(f"{about[key]!r:.40} as {key!r}")
    about.setdefault("to", "")
    about["left"] = int(about["left"])


def _rows(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a table that we wrote, whose columns are these."""
    reader = csv.DictReader(io.StringIO(read_text(path), newline=""))
    rows = list(reader)
    if reader.fieldnames != list(columns):
        raise ValueError(f"its columns are {reader.fieldnames!r:.80}")
    if any(None in row or None in row.values() for row in rows):
        raise ValueError("it has a row of another length")
    return rows


def _numbers(about: dict[str, Any]) -> dict[str, int]:
    """Class numbers by how the classes are written."""
    return {str(value): number for number, value in enumerate(about["classes"])}


def _change(row: dict[str, str], number: dict[str, int]) -> Change:
    action = row["action"]
    if action not in ("relabel", "drop"):
        raise ValueError(f"action {action!r}")
    return Change(
        int(row["index"]),
        row["id"],
        action,  # type: ignore[arg-type]
        number[row["from"]],
        None if action == "drop" else number[row["to"]],
        row["because"],
        row["reviewer"] or None,
        float(row["score"]) if row["score"] else None,
    )


def _codes(written: Iterable[str], about: dict[str, Any], out: Path) -> NDArray[np.int32]:
    number = _numbers(about)
    try:
        return np.array([number[label] for label in written], np.int32)
    except KeyError as error:
        raise FileError(
            f"export {str(out)!r}",
            f"has the label {error.args[0]!r}, which is no class of its record",
            "Undo it before labels are renamed",
        ) from error


def _of_csv(out: Path, about: dict[str, Any]) -> NDArray[np.int32]:
    frame = read_csv(out, dtype=str, keep_default_na=False)
    return _codes(frame[about["label"]], about, out)


def _of_parquet(out: Path, about: dict[str, Any]) -> NDArray[np.int32]:
    column = read_parquet(out, [about["label"]]).column(0).to_pylist()
    written = {value: str(value) for value in about["classes"]}  # 7.0 is how a column has 7
    return _codes((written.get(value, str(value)) for value in column), about, out)


def _of_huggingface(out: Path, about: dict[str, Any]) -> NDArray[np.int32]:
    files = sorted((out / "data").glob("*.parquet"))
    parts = [read_parquet(file, [about["label"]]).column(0).to_numpy() for file in files]
    codes, K = np.concatenate(parts), len(about["classes"])
    if codes.dtype.kind not in "iu" or (len(codes) and not 0 <= codes.min() <= codes.max() < K):
        raise ValueError(f"its labels are not class numbers below {K}")
    return codes.astype(np.int32)


def _of_files(out: Path, about: dict[str, Any]) -> NDArray[np.int32]:
    rows = [
        FileRow(int(row["index"]), row["id"], row["file"], row["label"])
        for row in _rows(out / "files.csv", [field.name for field in fields(FileRow)])
    ]
    return _codes((row.label for row in sorted(rows)), about, out)


_READERS = {
    "csv": _of_csv,
    "parquet": _of_parquet,
    "huggingface": _of_huggingface,
    "folder": _of_files,
    "fiftyone": _of_files,
}
