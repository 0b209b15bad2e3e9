"""The most suspect samples, each with what a person needs to judge its label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from uqled.detect.auto.estimate import DROP, KEEP, RELABEL, RELABEL_IN_BULK
from uqled.detect.reasons import CONTRADICTED, Reason, explain_reason
from uqled.detect.result import LabelErrors
from uqled.report.report_inputs import ReportInputs
from uqled.report.samples import SampleSource
from uqled.report.similar_samples import Side, SimilarSamples
from uqled.report.table_rows import TableRows, UnusualColumn
from uqled.report.thumbnails import Thumbnail

PICTURE = 320  # pixels of the longer side
_BARS = 4  # most probable classes; the given one is always there
_TEXT = 600  # characters
_FIELDS = 12
_EVIDENCE_SUSPECTS = 24  # shown with other samples beside them, which make the file larger
_STRIP = 3  # samples in a row
_SMALL_PICTURE = 72  # pixels
_SMALL_TEXT = 110  # characters
_SMALL_FIELDS = 4  # of a row beside another one


@dataclass(frozen=True)
class Bar:
    """One class's probability."""

    name: str
    share: float
    role: Literal["given", "suggested", "other"]


@dataclass(frozen=True)
class Sample:
    """The content of one sample: a picture, a text, or a row."""

    picture: Thumbnail | None = None
    text: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
    more_fields: int = 0


@dataclass(frozen=True)
class Strip:
    """A few samples beside a suspect, small."""

    title: str
    samples: list[Sample]
    is_alarm: bool = False


@dataclass(frozen=True)
class Suspect:
    """One card of the gallery."""

    rank: int
    id: str
    given: str
    suggested: str
    probability: float | None
    """The probability that the given label is wrong, if the method estimates it."""
    flagged_by: str
    reason: Reason | None
    """None without probabilities."""
    sentence: str
    bars: list[Bar]
    sample: Sample
    truth: str | None
    """Name of the true class, where it is known."""
    is_wrong: bool | None
    """Whether the given label is really wrong; None where the truth is not known."""
    decision: str
    """What a reviewer decided, such as `now dog`; empty for nothing."""
    tier: str
    """The tier; empty if it is not known."""
    evidence: list[Strip]
    """For the first few suspects: the evidence for either label."""
    unusual: list[UnusualColumn]
    """For the first few rows of a table: the columns in which they are unusual for their label."""


def list_suspects(
    errors: LabelErrors,
    inputs: ReportInputs,
    places: NDArray[np.intp],
    reasons: NDArray[np.object_] | None,
) -> list[Suspect]:
    """The samples at these places of `errors.suspects`; `reasons` has one entry for every place."""
    rows = errors.suspects[places]
    probs = read_probabilities(inputs.pred_probs, inputs.passes, rows)
    names, codes, truth = errors.labels.names, errors.labels.codes, inputs.truth
    probabilities, tiers = errors.probability, errors.tier
    table = read_table_rows(inputs.source, inputs.labels.codes)
    similar_samples = _compare_samples(errors, inputs, table)
    cards = []
    for at, (place, z) in enumerate(zip(places.tolist(), rows.tolist(), strict=True)):
        label, best = int(codes[z]), int(errors.suggested_codes[z])
        unusual_columns = []
        if table is not None and at < _EVIDENCE_SUSPECTS:
            unusual_columns = table.find_unusual_columns(z, label, best)
        reason: Reason | None = None if reasons is None else reasons[place]
        if reason is not None and probs is not None:
            sentence = describe_reason(
                reason, label, best, probs[at], names, describe_duplicate(errors, z, inputs.ids)
            )
        else:
            sentence = f"The label's score is {errors.scores[z]:.3f}: the lower, the more suspect."
        cards.append(
            Suspect(
                rank=place + 1,
                id=str(z) if inputs.ids is None else inputs.ids[z],
                given=names[label],
                suggested=names[best],
                probability=None if probabilities is None else float(probabilities[z]),
                flagged_by=_describe_methods(errors, z),
                reason=reason,
                sentence=sentence,
                bars=[] if probs is None else _make_bars(probs[at], label, best, names),
                sample=Sample() if inputs.source is None else read_sample(inputs.source, z),
                truth=None if truth is None else names[int(truth[z])],
                is_wrong=None if truth is None else bool(truth[z] != label),
                decision=_describe_decision(inputs, z, names),
                tier=str(tiers[z]),
                evidence=[]
                if similar_samples is None or at >= _EVIDENCE_SUSPECTS
                else _list_evidence(
                    similar_samples, inputs, z, (label, best), errors, unusual_columns
                ),
                unusual=unusual_columns,
            )
        )
    return cards


def _compare_samples(
    errors: LabelErrors, inputs: ReportInputs, table: TableRows | None
) -> SimilarSamples | None:
    """None where there is nothing to show beside a suspect: no samples, or no probabilities."""
    probs = inputs.pred_probs
    if inputs.source is None or probs is None:
        return None
    run = None if inputs.run is None else Path(inputs.run)
    return SimilarSamples(
        errors.labels.codes, probs, errors.mask, run, errors.contradictions, table
    )


def read_table_rows(source: SampleSource | None, codes: NDArray[Any]) -> TableRows | None:
    """The rows of a table, to compare them; None for texts and images."""
    if source is None or source.kind != "table":
        return None
    return TableRows(source.data.inputs, codes)


def _list_evidence(
    similar_samples: SimilarSamples,
    inputs: ReportInputs,
    z: int,
    classes: tuple[int, int],
    errors: LabelErrors,
    unusual_columns: list[UnusualColumn],
) -> list[Strip]:
    """Near duplicates with another label, and for either class the nearest samples, or typical ones
    where the run has no neighbours. Of a table's rows, the unusual columns come first."""
    columns = [one.name for one in unusual_columns]
    source, codes, names = inputs.source, inputs.labels.codes, errors.labels.names
    assert source is not None
    strips = []
    for copy in similar_samples.list_duplicates(z)[:1]:
        is_exact = errors.duplicates.get(z) == (copy, True)
        same = "The same" if is_exact else "Nearly the same"
        title = f"{same}, labelled {names[int(codes[copy])]}"
        strips.append(Strip(title, [read_small_sample(source, copy, columns)], is_alarm=True))
    for side, k in zip(get_args(Side), classes, strict=True):
        nearest, title = similar_samples.list_neighbours(z, side, k), f"Most like it: {names[k]}"
        if not nearest:
            nearest, title = similar_samples.list_typical(k, _STRIP + 1), f"Typical {names[k]}"
        neighbours = [i for i in nearest if i != z][:_STRIP]
        if neighbours:
            samples = [read_small_sample(source, i, columns) for i in neighbours]
            strips.append(Strip(title, samples))
    return strips


def read_small_sample(source: SampleSource, z: int, columns: list[str]) -> Sample:
    """A sample shown small beside another one; of a table's row, `columns` come first."""
    if source.kind == "images":
        return Sample(picture=source.make_thumbnail(z, _SMALL_PICTURE))
    if source.kind == "table":
        fields = source.read_fields(z, source.data.inputs.shape[1])
        first = [field for field in fields if field[0] in columns]
        others = [field for field in fields if field[0] not in columns]
        return Sample(fields=tuple([*first, *others][:_SMALL_FIELDS]))
    return Sample(text=source.read_text(z, _SMALL_TEXT))


def describe_reason(
    reason: Reason,
    label: int,
    suggested: int,
    row: NDArray[np.float64],
    names: tuple[str, ...],
    duplicate: Mapping[str, Any],
) -> str:
    """The reason in words, from the probabilities [K] of the sample; `duplicate` is what
    `describe_duplicate` returns for it."""
    best = suggested if reason == CONTRADICTED else int(row.argmax())
    probabilities = float(row[label]), float(row[best])
    return explain_reason(reason, names[label], names[best], *probabilities, **duplicate)


def describe_duplicate(errors: LabelErrors, z: int, ids: Sequence[str] | None) -> Mapping[str, Any]:
    """The duplicate that sample z contradicts, as `explain_reason` takes it; empty for none."""
    if z not in errors.duplicates:
        return {}
    index, is_exact = errors.duplicates[z]
    name = f"sample {index}" if ids is None else ids[index]
    name = f"row {name}" if name.isdecimal() else name  # of a table
    return {"duplicate": name, "is_exact": is_exact}


def read_probabilities(
    pred_probs: NDArray[Any] | None, passes: NDArray[Any] | None, rows: NDArray[Any]
) -> NDArray[np.float64] | None:
    """[n,K] the probabilities that reasons are derived from, whatever the method reads: the mean of
    the passes [F,N,K], or the softmax where there are no passes.
    """
    if passes is not None:
        mean: NDArray[np.float64] = np.asarray(passes[:, rows]).mean(axis=0, dtype=np.float64)
        return mean
    return None if pred_probs is None else np.asarray(pred_probs[rows], np.float64)


def read_sample(source: SampleSource, z: int) -> Sample:
    """The content of sample z that can be shown."""
    if source.kind == "images":
        return Sample(picture=source.make_thumbnail(z, PICTURE))
    if source.kind == "texts":
        return Sample(text=source.read_text(z, _TEXT))
    fields = source.read_fields(z, _FIELDS)
    return Sample(fields=tuple(fields), more_fields=source.data.inputs.shape[1] - len(fields))


def _make_bars(
    row: NDArray[np.float64], label: int, best: int, names: tuple[str, ...]
) -> list[Bar]:
    classes = np.argsort(-row, kind="stable")[:_BARS].tolist()
    classes = classes if label in classes else [*classes[: _BARS - 1], label]
    roles: dict[int, Literal["given", "suggested"]] = {best: "suggested", label: "given"}
    return [Bar(names[k], float(row[k]), roles.get(k, "other")) for k in classes]


def _describe_decision(inputs: ReportInputs, z: int, names: tuple[str, ...]) -> str:
    if inputs.verdicts is None:
        return ""
    action, label = (int(one[z]) for one in inputs.verdicts)
    if action in (RELABEL, RELABEL_IN_BULK):
        return f"now {names[label]}"
    return {KEEP: "kept", DROP: "dropped"}.get(action, "")


def _describe_methods(errors: LabelErrors, z: int) -> str:
    if errors.by_method:
        times = sum(bool(one.mask[z]) for one in errors.by_method.values())
        return f"{times} of {len(errors.by_method)} methods"
    return errors.method if errors.mask[z] else "no method"
