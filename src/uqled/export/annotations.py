"""The way back from Label Studio: what annotators said of a run's tasks becomes decisions.

A task carries the sample's index and id. Annotations of another run's tasks are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uqled.arrays import show_value
from uqled.errors import FileError
from uqled.export.label_studio import DROP, DROPPED, LABEL
from uqled.export.names import distinct
from uqled.review.decision_rows import LONGEST_NAME, is_reviewer_name
from uqled.review.decisions import Action, ConflictError, Decision, Decisions, has_decisions
from uqled.storage.reading import name_file, read_json
from uqled.storage.run import Predictions

_SHOWN = 5  # samples in a message

Item = tuple[int, Action | None, int | None]
"""Sample, action, class number of a relabel."""


@dataclass(frozen=True)
class Annotated:
    """What annotators said of a run's samples."""

    decisions: dict[int, tuple[Action, int | None, str]]
    """By sample: action, class number of a relabel, and who."""
    disagreed: list[int]
    """Samples on which annotators disagree."""
    unanswered: int
    """Tasks without an answer, or skipped."""


def read_annotations(path: Path | str, predictions: Predictions) -> Annotated:
    """What annotators said, in Label Studio's export as JSON or JSON-MIN.

    An annotation marked as ground truth speaks for its task. Where annotators disagree, nothing
    is decided.
    """
    path = Path(path)
    tasks = _tasks(path)
    number = {name: code for code, name in enumerate(distinct(predictions.labels.names))}
    answers: dict[int, list[tuple[Action, int | None, str, bool]]] = {}
    for task in tasks:
        data = task.get("data", task)
        index = _index_of(data, predictions, path)
        given = int(predictions.labels.codes[index])
        found = answers.setdefault(index, [])
        for annotation in task["annotations"] if "data" in task else [task]:
            said = _said(annotation, number, given, path)
            if said is not None:
                who = _annotator(annotation, path)
                found.append((*said, who, bool(annotation.get("ground_truth"))))
    decided: dict[int, tuple[Action, int | None, str]] = {}
    disagreed, unanswered = [], 0
    for index, said_of_it in answers.items():
        counting = [one for one in said_of_it if one[3]] or said_of_it
        if not counting:
            unanswered += 1
        elif len({one[:2] for one in counting}) > 1:
            disagreed.append(index)
        else:
            decided[index] = counting[-1][:3]
    return Annotated(decided, sorted(disagreed), unanswered)


@dataclass(frozen=True)
class Imported:
    """What became of annotations."""

    written: int
    same: int
    """Decisions that the run already had."""
    differing: list[int]
    """Samples that the run has another decision for, which stayed."""
    annotated: Annotated


def import_annotations(
    path: Path | str, predictions: Predictions, *, overwrite: bool = False, dry_run: bool = False
) -> Imported:
    """Make decisions of annotations, all of them or, where somebody decides meanwhile, none.

    A decision that the run already has stays, unless `overwrite`.
    """
    annotated = read_annotations(path, predictions)
    current, versions = _so_far(predictions)
    differing, same = [], 0
    by_reviewer: dict[str, list[Item]] = {}
    for index, (action, label, who) in sorted(annotated.decisions.items()):
        now = current.get(index)
        if now is not None and (now.action, now.label) == (action, label):
            same += 1
        elif now is not None and not overwrite:
            differing.append(index)
        else:
            by_reviewer.setdefault(who, []).append((index, action, label))
    if by_reviewer and not dry_run:
        with _ImportedDecisions.of(predictions) as store:
            assert isinstance(store, _ImportedDecisions)
            store.decide_together(by_reviewer, seen=None if overwrite else versions)
    written = sum(map(len, by_reviewer.values()))
    return Imported(written, same, differing, annotated)


class _ImportedDecisions(Decisions):
    """A run's decisions, to which several reviewers add in one transaction."""

    def decide_together(
        self, by_reviewer: Mapping[str, Sequence[Item]], *, seen: Mapping[int, int] | None
    ) -> None:
        """Write what each reviewer decided, on samples of their own; `seen` as in `decide`."""
        checked = {who: [self._checked(*item) for item in by_reviewer[who]] for who in by_reviewer}
        with self._writing():
            before = self._latest(index for items in checked.values() for index, _, _ in items)
            if seen is not None:
                newer = [now for i, now in before.items() if now.version > seen.get(i, 0)]
                if newer:
                    raise ConflictError(newer)
            for who, items in checked.items():
                for _ in self._write(items, before, who, ""):
                    pass


def _so_far(predictions: Predictions) -> tuple[dict[int, Decision], dict[int, int]]:
    """A run's decisions and the versions of all samples that ever had one.

    Versions are read first: whoever decides in between has a newer one, which is a conflict.
    """
    if not has_decisions(predictions):
        return {}, {}
    with Decisions.of(predictions) as store:
        versions = {change.index: change.version for change in store.history()}
        return store.current(), versions


def import_summary(done: Imported, *, dry_run: bool = False) -> str:
    """What became of annotations, in a few lines."""
    said = done.annotated
    actions = [action for action, _, _ in said.decisions.values()]
    counts = ", ".join(f"{actions.count(a):,} {a}" for a in ("keep", "relabel", "drop"))
    verb = "would be written" if dry_run else "written"
    lines = [
        f"{len(actions):,} samples are annotated ({counts}); {done.written:,} decisions {verb}"
    ]
    if done.same:
        lines.append(f"{done.same:,} decisions the run already had")
    if done.differing:
        lines.append(
            f"{len(done.differing):,} samples have another decision in the run, which stays "
            f"({_first(done.differing)}); --overwrite replaces it"
        )
    if said.disagreed:
        lines.append(
            f"{len(said.disagreed):,} samples stay as they are because annotators disagree "
            f"({_first(said.disagreed)})"
        )
    if said.unanswered:
        lines.append(f"{said.unanswered:,} tasks have no answer")
    return "\n".join(lines)


def _tasks(path: Path) -> list[dict[str, Any]]:
    found = read_json(path, "Export JSON from Label Studio")
    fits = isinstance(found, list) and all(
        isinstance(task, dict)
        and ("data" not in task or isinstance(task["data"], dict))
        and ("data" not in task or _is_annotations(task.get("annotations")))
        for task in found
    )
    if not fits:
        raise FileError(
            name_file(path),
            "is no list of tasks with annotations",
            "Export JSON or JSON-MIN from Label Studio",
        )
    tasks: list[dict[str, Any]] = found
    return tasks


def _is_annotations(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(one, dict) for one in found)


def _index_of(data: Mapping[str, Any], predictions: Predictions, path: Path) -> int:
    index, sample = data.get("uqled_index"), data.get("sample")
    ok = isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(predictions)
    if not ok or predictions.ids[index] != sample:  # type: ignore[index]
        raise FileError(
            name_file(path),
            f"has a task of sample {show_value(sample)} with uqled_index {show_value(index)}, "
            f"which is none of run {str(predictions.path)!r}",
            "Name the run whose tasks were annotated",
        )
    assert isinstance(index, int)
    return index


def _said(
    annotation: Mapping[str, Any], number: Mapping[str, int], given: int, path: Path
) -> tuple[Action, int | None] | None:
    """The decision that an annotation is; None if it was skipped or left empty."""
    if annotation.get("was_cancelled"):
        return None
    if DROPPED in _answers(annotation, DROP):
        return "drop", None
    labels = _answers(annotation, LABEL)
    if not labels:
        return None
    if len(labels) > 1 or labels[0] not in number:
        raise FileError(
            name_file(path),
            f"answers {show_value(labels)}, which is not one of the run's {len(number)} classes",
            "Let annotators choose one class of the exported configuration",
        )
    label = number[labels[0]]
    return ("keep", None) if label == given else ("relabel", label)


def _answers(annotation: Mapping[str, Any], question: str) -> list[str]:
    """The choices of one question, in JSON or in JSON-MIN."""
    if "result" in annotation:
        results = annotation["result"] if isinstance(annotation["result"], list) else []
        return [
            str(answer)
            for result in results
            if isinstance(result, dict) and result.get("from_name") == question
            for answer in _choices(result.get("value"))
        ]
    return _choices(annotation.get(question))


def _choices(value: Any) -> list[str]:
    """What was chosen: one answer, several, or a value that holds them."""
    if isinstance(value, dict):
        value = value.get("choices")
    if value is None:
        return []
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _annotator(annotation: Mapping[str, Any], path: Path) -> str:
    who = annotation.get("completed_by", annotation.get("annotator"))
    if isinstance(who, dict):
        who = who.get("email") or who.get("id")
    name = who.strip() if isinstance(who, str) else ""
    name = name or ("Label Studio" if who is None else f"Label Studio user {who}")
    name = name[:LONGEST_NAME].strip()
    if not is_reviewer_name(name):
        raise FileError(
            name_file(path),
            f"has an annotator called {show_value(who)}",
            "Give annotators names of printable characters",
        )
    return name


def _first(indices: list[int]) -> str:
    return ", ".join(map(str, indices[:_SHOWN])) + (", ..." if len(indices) > _SHOWN else "")
