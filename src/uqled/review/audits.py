"""An audit of a run: the samples that were drawn, and a file in which a person notes verdicts.

`audit.json` keeps the samples and how probable it was to draw each, so that the same audit goes on
when the command is repeated. `audit.csv` is for the person: one row per sample, with an empty
column `is_wrong`. Decisions of the review page count as well.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uqled.detect.auto.audit import Audit, audit_sample
from uqled.errors import FileError
from uqled.review.decisions import read_verdicts
from uqled.storage.atomic import replace_file, write_json
from uqled.storage.reading import name_file, read_json

if TYPE_CHECKING:
    from uqled.detect.result import LabelErrors
    from uqled.storage.run import Predictions

YES, NO = ("y", "yes", "1", "true"), ("n", "no", "0", "false")
COLUMNS = ("index", "id", "given_label", "suggested_label", "is_wrong")
_ANEW = "Remove it to draw a new audit"


def open_audit(folder: Path, errors: LabelErrors, ids: list[str], size: int, seed: int) -> Audit:
    """The audit that was begun in a run's folder, or a new one, whose files are written."""
    path = folder / "audit.json"
    if path.exists():
        return _check_audit(read_json(path, _ANEW), len(errors), path)
    audit = audit_sample(errors, size, seed=seed)
    with replace_file(folder / "audit.csv") as part, part.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for z in audit.indices.tolist():
            rows.writerow([z, ids[z], errors.given[z], errors.labels.values[_other(errors, z)], ""])
    content = {"indices": audit.indices.tolist(), "inclusion": audit.inclusion.tolist()}
    write_json(path, content)
    return audit


def _other(errors: LabelErrors, z: int) -> int:
    """The class that the sample would have, if its label is wrong."""
    best = int(errors.best[z])
    if best == errors.labels.codes[z] and errors.other is not None:
        return int(errors.other[z])
    return best


def _check_audit(content: Any, n_samples: int, path: Path) -> Audit:
    """A run may come from a stranger: what is read back is checked."""
    fields = content if isinstance(content, dict) else {}
    indices, inclusion = fields.get("indices"), fields.get("inclusion")
    is_valid = (
        isinstance(indices, list)
        and isinstance(inclusion, list)
        and len(indices) == len(inclusion) == len(set(map(repr, indices)))
        and all(type(z) is int and 0 <= z < n_samples for z in indices)
        and all(type(p) in (int, float) and 0 < p <= 1 for p in inclusion)
        and len(indices) > 0
    )
    if not is_valid:
        raise FileError(name_file(path), "is no audit of this run", _ANEW)
    return Audit(np.array(indices, np.int64), np.array(inclusion, np.float64))


def read_audit_verdicts(predictions: Predictions) -> dict[int, bool]:
    """Sample -> True if its label is wrong: what was decided on the review page and, where the
    audit's own file says something, what that says."""
    verdicts = {}
    decided = read_verdicts(predictions)
    if decided is not None:
        actions, labels = decided
        for z in np.flatnonzero(actions).tolist():
            is_kept = actions[z] == 1 or (actions[z] == 2 and labels[z] == _code(predictions, z))
            verdicts[z] = not is_kept
    path = predictions.path / "audit.csv"
    if path.exists():
        verdicts |= _read_notes(path, len(predictions))
    return verdicts


def _code(predictions: Predictions, z: int) -> int:
    return int(predictions.labels.codes[z])


def _read_notes(path: Path, n_samples: int) -> dict[int, bool]:
    """What a person noted in `audit.csv`; rows without a note are left out."""
    notes = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(name_file(path), f"cannot be read ({error})", _ANEW) from error
    for line, row in enumerate(rows, start=2):
        note = (row.get("is_wrong") or "").strip().lower()
        index = (row.get("index") or "").strip()
        if not note:
            continue
        if note not in YES + NO or not (index.isdecimal() and int(index) < n_samples):
            raise FileError(
                name_file(path),
                f"has {index!r} and {note!r} as index and is_wrong in line {line}",
                "Leave the index as it was, and write yes or no, or nothing, into is_wrong",
            )
        notes[int(index)] = note in YES
    return notes
