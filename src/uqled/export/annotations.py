"""Imports annotations from Label Studio as decisions.

A task carries the sample's index and id. Annotations of another run's tasks are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uqled.arrays import show_value
from uqled.errors import FileError, list_first
from uqled.export.file_names import number_repeats
from uqled.export.formats.label_studio import DROP, DROP_CHOICE, LABEL
from uqled.review.decisions import Action, Decision, Decisions, Item, has_decisions
from uqled.review.decisions.rows import LONGEST_NAME, is_reviewer_name
from uqled.storage.reading import name_file, read_json
from uqled.storage.run import Predictions

_MAX_NAMES = 5  # samples in a message


@dataclass(frozen=True)
class AnnotationSet:
    """The annotations of a run's samples."""

    decisions: dict[int, tuple[Action, int | None, str]]
    """Sample -> (action, class number of a relabel, annotator)."""
    disagreements: list[int]
    """Samples on which annotators disagree."""
    n_unanswered: int
    """Tasks without an answer, or skipped."""


def read_annotations(path: Path | str, predictions: Predictions) -> AnnotationSet:
    """Read annotations from Label Studio's export as JSON or JSON-MIN.

    An annotation marked as ground truth speaks for its task. Where annotators disagree, nothing
    is decided.
    """
    path = Path(path)
    tasks = _read_tasks(path)
    number = {name: code for code, name in enumerate(number_repeats(predictions.labels.names))}
    answers: dict[int, list[tuple[Action, int | None, str, bool]]] = {}
    for task in tasks:
        data = task.get("data", task)
        index = _read_index(data, predictions, path)
        label = int(predictions.labels.codes[index])
        of_sample = answers.setdefault(index, [])
        for annotation in task["annotations"] if "data" in task else [task]:
            verdict = _parse_verdict(annotation, number, label, path)
            if verdict is not None:
                who = _read_annotator(annotation, path)
                of_sample.append((*verdict, who, bool(annotation.get("ground_truth"))))
    decisions: dict[int, tuple[Action, int | None, str]] = {}
    disagreements, n_unanswered = [], 0
    for index, of_sample in answers.items():
        counting = [one for one in of_sample if one[3]] or of_sample
        if not counting:
            n_unanswered += 1
        elif len({one[:2] for one in counting}) > 1:
            disagreements.append(index)
        else:
            decisions[index] = counting[-1][:3]
    return AnnotationSet(decisions, sorted(disagreements), n_unanswered)


@dataclass(frozen=True)
class ImportResult:
    """The outcome of an import."""

    n_written: int
    n_same: int
    """The number of decisions that the run already had."""
    conflicts: list[int]
    """Samples with another decision in the run, which was kept."""
    annotations: AnnotationSet


def import_annotations(
    path: Path | str, predictions: Predictions, *, overwrite: bool = False, dry_run: bool = False
) -> ImportResult:
    """Turn annotations into decisions: all of them, or none if somebody decides meanwhile.

    A decision that the run already has stays, unless `overwrite`.
    """
    annotations = read_annotations(path, predictions)
    current, versions = _read_decisions(predictions)
    conflicts, n_same = [], 0
    by_reviewer: dict[str, list[Item]] = {}
    for index, (action, label, who) in sorted(annotations.decisions.items()):
        now = current.get(index)
        if now is not None and (now.action, now.label) == (action, label):
            n_same += 1
        elif now is not None and not overwrite:
            conflicts.append(index)
        else:
            by_reviewer.setdefault(who, []).append((index, action, label))
    if by_reviewer and not dry_run:
        with Decisions.of(predictions) as store:
            store.decide_for_reviewers(by_reviewer, seen_versions=None if overwrite else versions)
    n_written = sum(map(len, by_reviewer.values()))
    return ImportResult(n_written, n_same, conflicts, annotations)


def _read_decisions(predictions: Predictions) -> tuple[dict[int, Decision], dict[int, int]]:
    """A run's decisions and the versions of all samples that ever had one.

    Versions are read first: whoever decides in between has a newer one, which is a conflict.
    """
    if not has_decisions(predictions):
        return {}, {}
    with Decisions.of(predictions) as store:
        versions = {change.index: change.version for change in store.history()}
        return store.current(), versions


def describe_import(result: ImportResult, *, dry_run: bool = False) -> str:
    """The outcome of an import, in a few lines."""
    annotations = result.annotations
    actions = [action for action, _, _ in annotations.decisions.values()]
    counts = ", ".join(f"{actions.count(a):,} {a}" for a in ("keep", "relabel", "drop"))
    verb = "would be written" if dry_run else "written"
    lines = [
        f"{len(actions):,} samples are annotated ({counts}); {result.n_written:,} decisions {verb}"
    ]
    if result.n_same:
        lines.append(f"{result.n_same:,} decisions the run already had")
    if result.conflicts:
        lines.append(
            f"{len(result.conflicts):,} samples have another decision in the run, which stays "
            f"({list_first(result.conflicts, _MAX_NAMES)}); --overwrite replaces it"
        )
    if annotations.disagreements:
        lines.append(
            f"{len(annotations.disagreements):,} samples stay as they are because annotators "
            f"disagree ({list_first(annotations.disagreements, _MAX_NAMES)})"
        )
    if annotations.n_unanswered:
        lines.append(f"{annotations.n_unanswered:,} tasks have no answer")
    return "\n".join(lines)


def _read_tasks(path: Path) -> list[dict[str, Any]]:
    content = read_json(path, "Export JSON from Label Studio")
    fits = isinstance(content, list) and all(
        isinstance(task, dict)
        and ("data" not in task or isinstance(task["data"], dict))
        and ("data" not in task or _is_annotation_list(task.get("annotations")))
        for task in content
    )
    if not fits:
        raise FileError(
            name_file(path),
            "is not a list of tasks with annotations",
            "Export JSON or JSON-MIN from Label Studio",
        )
    tasks: list[dict[str, Any]] = content
    return tasks


def _is_annotation_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _read_index(data: Mapping[str, Any], predictions: Predictions, path: Path) -> int:
    index, sample = data.get("uqled_index"), data.get("sample")
    ok = isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(predictions)
    if not ok or predictions.ids[index] != sample:  # type: ignore[index]
        raise FileError(
            name_file(path),
            f"has a task of sample {show_value(sample)} with uqled_index {show_value(index)}, "
            f"which is not in run {str(predictions.path)!r}",
            "Name the run whose tasks were annotated",
        )
    assert isinstance(index, int)
    return index


def _parse_verdict(
    annotation: Mapping[str, Any], number: Mapping[str, int], given_label: int, path: Path
) -> tuple[Action, int | None] | None:
    """The decision that an annotation expresses; None if it was skipped or left empty."""
    if annotation.get("was_cancelled"):
        return None
    if DROP_CHOICE in _read_choices(annotation, DROP):
        return "drop", None
    labels = _read_choices(annotation, LABEL)
    if not labels:
        return None
    if len(labels) > 1 or labels[0] not in number:
        raise FileError(
            name_file(path),
            f"answers {show_value(labels)}, which is not one of the run's {len(number)} classes",
            "Let annotators choose one class of the exported configuration",
        )
    label = number[labels[0]]
    return ("keep", None) if label == given_label else ("relabel", label)


def _read_choices(annotation: Mapping[str, Any], question: str) -> list[str]:
    """The choices of one question, in JSON or in JSON-MIN."""
    if "result" in annotation:
        results = annotation["result"] if isinstance(annotation["result"], list) else []
        return [
            str(answer)
            for result in results
            if isinstance(result, dict) and result.get("from_name") == question
            for answer in _list_choices(result.get("value"))
        ]
    return _list_choices(annotation.get(question))


def _list_choices(value: Any) -> list[str]:
    """The chosen answer or answers, or a value that holds them."""
    if isinstance(value, dict):
        value = value.get("choices")
    if value is None:
        return []
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _read_annotator(annotation: Mapping[str, Any], path: Path) -> str:
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
