"""The audit of a run: the samples that were drawn, and a file in which a person notes verdicts.

`audit.json` keeps the samples and their probabilities of being drawn, so that repeating the command
continues the same audit.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.auto.audit import Audit, audit_sample
from uqled.detect.auto.estimate import DROP, KEEP, RELABEL, RELABEL_IN_BULK, encode_verdicts
from uqled.errors import FileError
from uqled.review.decisions import read_verdicts
from uqled.review.decisions.classes import find_settled_samples, read_run_classes
from uqled.storage.atomic import replace_file, write_json
from uqled.storage.reading import explain_file_problems, name_file, read_json, read_text

if TYPE_CHECKING:
    from uqled.detect.result import LabelErrors
    from uqled.storage.run import Predictions

YES, NO = ("y", "yes", "1", "true"), ("n", "no", "0", "false")
AUDIT_COLUMNS = ("index", "id", "given_label", "suggested_label", "is_wrong")
AUDIT_FILE = "audit.json"
Verdicts = tuple[NDArray[np.int8], NDArray[np.int32]]
"""(actions [N], labels [N])"""
_ANEW = "Remove it to draw a new audit"


def open_audit(
    folder: Path,
    errors: LabelErrors,
    ids: list[str],
    size: int,
    seed: int,
    *,
    settled: NDArray[np.bool_] | None = None,
) -> Audit:
    """Continue the audit in a run's folder, or begin a new one and write its files.

    Samples that are `settled` [N] are drawn like all others, because a merge of classes may be
    taken back, but a person is not asked about them.
    """
    path = folder / AUDIT_FILE
    if path.exists():
        return _check_audit(read_json(path, _ANEW), len(errors), path)
    audit = audit_sample(errors, size, seed=seed)
    file = io.StringIO(newline="")
    rows = csv.writer(file)
    rows.writerow(AUDIT_COLUMNS)
    drawn_samples = audit.indices if settled is None else audit.indices[~settled[audit.indices]]
    for z in drawn_samples.tolist():
        rows.writerow(
            [z, ids[z], errors.given[z], errors.labels.values[_find_other_class(errors, z)], ""]
        )
    with replace_file(folder / "audit.csv") as part:
        part.write_text(file.getvalue(), encoding="utf-8", newline="")
    content = {"indices": audit.indices.tolist(), "inclusion": audit.inclusion.tolist()}
    write_json(path, content)
    return audit


def _find_other_class(errors: LabelErrors, z: int) -> int:
    """The class that the sample would have, if its label is wrong."""
    best = int(errors.suggested_codes[z])
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
        raise FileError(name_file(path), "is not an audit of this run", _ANEW)
    return Audit(np.array(indices, np.int64), np.array(inclusion, np.float64))


def find_settled_by_merges(predictions: Predictions, errors: LabelErrors) -> NDArray[np.bool_]:
    """[N] samples of a run about which an audit needs no verdict: see `find_settled_samples`."""
    N = len(predictions)
    decisions = read_verdicts(predictions)
    actions, labels = decisions or (np.zeros(N, np.int8), np.full(N, -1, np.int32))
    classes = read_run_classes(predictions)
    targets = {k: one.target for k, one in classes.items() if one.target is not None}
    codes, suggested = predictions.labels.codes, errors.suggested_codes
    return find_settled_samples(codes, suggested, actions, labels, targets)


def read_audit_verdicts(
    predictions: Predictions, decisions: Verdicts | None = None
) -> dict[int, bool]:
    """Sample -> True if its label is wrong, by `collect_verdicts`; without suggestions that were
    accepted in bulk, which are the model's word and nobody's verdict."""
    verdicts = collect_verdicts(predictions, decisions)
    if verdicts is None:
        return {}
    encoded_verdicts = encode_verdicts(*verdicts, predictions.labels.codes)
    is_verdict = (encoded_verdicts >= 0) & (verdicts[0] != RELABEL_IN_BULK)
    return {z: bool(encoded_verdicts[z]) for z in np.flatnonzero(is_verdict).tolist()}


def collect_verdicts(
    predictions: Predictions, decisions: Verdicts | None = None
) -> Verdicts | None:
    """A run's (actions [N], labels [N]), as `find_label_errors` takes verdicts: what was decided on
    the review page and, where the audit's own file says something, what that says.

    None where nobody decided anything. `decisions` saves reading those of the page again.
    """
    decisions, path = decisions or read_verdicts(predictions), predictions.path / "audit.csv"
    notes = _read_notes(path, len(predictions)) if path.exists() else {}
    if not notes:
        return decisions
    actions, labels = decisions or (
        np.zeros(len(predictions), np.int8),
        np.full(len(predictions), -1, np.int32),
    )
    encoded_verdicts = encode_verdicts(actions, labels, predictions.labels.codes)
    for z, is_wrong in notes.items():
        if encoded_verdicts[z] != is_wrong:  # a wrong label without a correction counts as dropped
            actions[z] = DROP if is_wrong else KEEP
        elif actions[z] == RELABEL_IN_BULK:  # now somebody has looked
            actions[z] = RELABEL
    return actions, labels


def _is_index(text: str, n_samples: int) -> bool:
    return text.isdecimal() and len(text) < 20 and int(text) < n_samples


def _read_notes(path: Path, n_samples: int) -> dict[int, bool]:
    """Read a person's verdicts from `audit.csv`; rows without a verdict are left out."""
    notes = {}
    with explain_file_problems(path, _ANEW):
        text = read_text(path).removeprefix("\ufeff")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
    for line, row in enumerate(rows, start=2):
        note = (row.get("is_wrong") or "").strip().lower()
        index = (row.get("index") or "").strip()
        if not note:
            continue
        if note not in YES + NO or not _is_index(index, n_samples):
            raise FileError(
                name_file(path),
                f"has {index!r} and {note!r} as index and is_wrong in line {line}",
                "Leave the index as it was, and write yes or no, or nothing, into is_wrong",
            )
        notes[int(index)] = note in YES
    return notes
