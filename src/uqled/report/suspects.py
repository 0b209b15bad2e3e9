"""The most suspect samples, each with what a person needs to judge it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.detect.reasons import Reason, explain_reason
from uqled.detect.result import LabelErrors
from uqled.report.report_inputs import ReportInputs
from uqled.report.samples import SampleSource
from uqled.report.thumbnails import Thumbnail

PICTURE = 320  # pixels of the longer side
_BARS = 4  # most probable classes; the given one is always there
_TEXT = 600  # characters
_FIELDS = 12


@dataclass(frozen=True)
class Bar:
    """One class's probability."""

    name: str
    share: float
    role: Literal["given", "suggested", "other"]


@dataclass(frozen=True)
class Sample:
    """What the data holds of one sample: a picture, a text, or a row."""

    picture: Thumbnail | None = None
    text: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
    more_fields: int = 0


@dataclass(frozen=True)
class Suspect:
    """One card of the gallery."""

    rank: int
    id: str
    given: str
    suggested: str
    probability: float | None
    """That the given label is wrong, where the method knows it."""
    flagged_by: str
    reason: Reason | None
    """None without probabilities."""
    sentence: str
    bars: list[Bar]
    sample: Sample
    truth: str | None
    """Name of the true class, where it is known."""
    is_wrong: bool | None
    """The given label is wrong indeed, where the truth is known."""


def list_suspects(
    errors: LabelErrors,
    inputs: ReportInputs,
    places: NDArray[np.intp],
    reasons: NDArray[np.object_] | None,
) -> list[Suspect]:
    """The samples at these places of `errors.ranked`; `reasons` are about every place."""
    rows = errors.ranked[places]
    probs = read_probabilities(inputs.pred_probs, inputs.passes, rows)
    names, codes, truth = errors.labels.names, errors.labels.codes, inputs.truth
    wrong = errors.probability
    cards = []
    for at, (place, z) in enumerate(zip(places.tolist(), rows.tolist(), strict=True)):
        given, best = int(codes[z]), int(errors.best[z])
        reason: Reason | None = None if reasons is None else reasons[place]
        if reason is not None and probs is not None:
            sentence = describe_reason(reason, given, probs[at], names)
        else:
            sentence = f"The label's score is {errors.scores[z]:.3f}: the lower, the more suspect."
        cards.append(
            Suspect(
                rank=place + 1,
                id=str(z) if inputs.ids is None else inputs.ids[z],
                given=names[given],
                suggested=names[best],
                probability=None if wrong is None else float(wrong[z]),
                flagged_by=_describe_methods(errors, z),
                reason=reason,
                sentence=sentence,
                bars=[] if probs is None else _make_bars(probs[at], given, best, names),
                sample=Sample() if inputs.source is None else read_sample(inputs.source, z),
                truth=None if truth is None else names[int(truth[z])],
                is_wrong=None if truth is None else bool(truth[z] != given),
            )
        )
    return cards


def describe_reason(
    reason: Reason, given: int, row: NDArray[np.float64], names: tuple[str, ...]
) -> str:
    """The reason in words, by the probabilities [K] that it was read from."""
    best = int(row.argmax())
    return explain_reason(reason, names[given], names[best], float(row[given]), float(row[best]))


def read_probabilities(
    pred_probs: NDArray[Any] | None, passes: NDArray[Any] | None, rows: NDArray[Any]
) -> NDArray[np.float64] | None:
    """[n,K] the probabilities that reasons are read from, whatever the method looks at.

    The mean of the passes [F,N,K], the softmax where there are none.
    """
    if passes is not None:
        mean: NDArray[np.float64] = np.asarray(passes[:, rows]).mean(axis=0, dtype=np.float64)
        return mean
    return None if pred_probs is None else np.asarray(pred_probs[rows], np.float64)


def read_sample(source: SampleSource, z: int) -> Sample:
    """What there is to see of sample z."""
    if source.kind == "images":
        return Sample(picture=source.make_thumbnail(z, PICTURE))
    if source.kind == "texts":
        return Sample(text=source.read_text(z, _TEXT))
    fields = source.read_fields(z, _FIELDS)
    return Sample(fields=tuple(fields), more_fields=source.data.inputs.shape[1] - len(fields))


def _make_bars(
    row: NDArray[np.float64], given: int, best: int, names: tuple[str, ...]
) -> list[Bar]:
    shown = np.argsort(-row, kind="stable")[:_BARS].tolist()
    shown = shown if given in shown else [*shown[: _BARS - 1], given]
    roles: dict[int, Literal["given", "suggested"]] = {best: "suggested", given: "given"}
    return [Bar(names[k], float(row[k]), roles.get(k, "other")) for k in shown]


def _describe_methods(errors: LabelErrors, z: int) -> str:
    if errors.by_method:
        times = sum(bool(one.mask[z]) for one in errors.by_method.values())
        return f"{times} of {len(errors.by_method)} methods"
    return errors.method
