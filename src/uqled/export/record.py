"""The record of an export: every change, the options, and the way back to the given labels.

    changes.csv    index, id, action, from, to, because, reviewer, score: one row per change
    changes.json   what was exported, of which run, with which options; the classes
    files.csv      of folders of images: index, id, file, label of every sample that stayed

Beside a single file, say `clean.csv`, they are called `clean.csv.changes.csv` and
`clean.csv.changes.json`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError
from uqled.export.cleaning import Change, Cleaning, restored
from uqled.storage.atomic import write_json

_COLUMNS = ("index", "id", "action", "from", "to", "because", "reviewer", "score")
_FORMAT = 1  # of the record


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
    write_json(note, content)


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
    try:
        with table.open(newline="", encoding="utf-8") as file:
            return [_change(row, number) for row in csv.DictReader(file)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"file {str(table)!r}", f"cannot be read ({error!r})", "Export again"
        ) from error


def given_labels(out: Path | str) -> NDArray[Any]:
    """The labels [N] as they were given, of all samples in the run's order.

    Undoes an export of the kinds csv, parquet, folder, huggingface and fiftyone: from its labels
    and the record beside them, without the run.
    """
    out = Path(out)
    about = _about(out)
    reader = _READERS.get(about.get("to", ""))
    if reader is None:
        raise FileError(
            f"export {str(out)!r}",
            f"is of the kind {about.get('to')!r}, in which labels are as they were given",
            "Read them there",
        )
    codes, changes = reader(out, about), read_changes(out)
    if len(codes) != about["left"]:
        raise FileError(
            f"export {str(out)!r}",
            f"has {len(codes):,} samples, and its record says {about['left']:,}",
            "Undo it before samples are added or taken away",
        )
    return np.asarray(about["classes"])[restored(changes, codes)]


def _about(out: Path) -> dict[str, Any]:
    note = record_paths(out)[1]
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
        if found["format"] != _FORMAT:
            raise ValueError(f"format {found['format']}")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(
            f"file {str(note)!r}", f"is no record of an export ({error})", "Name what was exported"
        ) from error
    about: dict[str, Any] = found
    return about


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
    import pandas as pd

    separator = "\t" if out.suffix.lower() == ".tsv" else ","
    frame = pd.read_csv(out, sep=separator, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    return _codes(frame[about["label"]], about, out)


def _of_parquet(out: Path, about: dict[str, Any]) -> NDArray[np.int32]:
    import pyarrow.parquet as pq

    column = pq.read_table(out, columns=[about["label"]]).column(0).to_pylist()
    written = {value: str(value) for value in about["classes"]}  # 7.0 is how a column has 7
    return _codes((written.get(value, str(value)) for value in column), about, out)


def _of_huggingface(out: Path, about: dict[str, Any]) -> NDArray[np.int32]:
    import pyarrow.parquet as pq

    files = sorted((out / "data").glob("*.parquet"))
    parts = [pq.read_table(file, columns=[about["label"]]).column(0).to_numpy() for file in files]
    return np.concatenate(parts).astype(np.int32)


def _of_files(out: Path, about: dict[str, Any]) -> NDArray[np.int32]:
    with (out / "files.csv").open(newline="", encoding="utf-8") as file:
        rows = [
            FileRow(int(row["index"]), row["id"], row["file"], row["label"])
            for row in csv.DictReader(file)
        ]
    return _codes((row.label for row in sorted(rows)), about, out)


_READERS = {
    "csv": _of_csv,
    "parquet": _of_parquet,
    "huggingface": _of_huggingface,
    "folder": _of_files,
    "fiftyone": _of_files,
}
