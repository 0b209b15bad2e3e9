"""The most suspect samples, each with what a person needs to judge it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset
from uqled.detect.reasons import Reason, explained
from uqled.detect.result import LabelErrors
from uqled.report.material import Material
from uqled.report.thumbnails import Thumbnail, thumbnail

_BARS = 4  # most probable classes; the given one is always there
_TEXT = 600  # characters
_FIELDS = 12
_VALUE = 60  # characters of a table's value


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


def suspects(
    errors: LabelErrors,
    material: Material,
    places: NDArray[np.intp],
    reasons: NDArray[np.object_] | None,
) -> list[Suspect]:
    """The samples at these places of `errors.ranked`; `reasons` are about every place."""
    rows = errors.ranked[places]
    probs = shown_probabilities(material.pred_probs, material.passes, rows)
    names, codes, truth = errors.labels.names, errors.labels.codes, material.truth
    wrong = errors.probability
    found = []
    for at, (place, z) in enumerate(zip(places.tolist(), rows.tolist(), strict=True)):
        given, best = int(codes[z]), int(errors.best[z])
        reason: Reason | None = None if reasons is None else reasons[place]
        if reason is not None and probs is not None:
            sentence = told(reason, given, probs[at], names)
        else:
            sentence = f"The label's score is {errors.scores[z]:.3f}: the lower, the more suspect."
        found.append(
            Suspect(
                rank=place + 1,
                id=str(z) if material.ids is None else material.ids[z],
                given=names[given],
                suggested=names[best],
                probability=None if wrong is None else float(wrong[z]),
                flagged_by=_flagged_by(errors, z),
                reason=reason,
                sentence=sentence,
                bars=[] if probs is None else _bars(probs[at], given, best, names),
                sample=Sample() if material.data is None else sample(material.data, z),
                truth=None if truth is None else names[int(truth[z])],
                is_wrong=None if truth is None else bool(truth[z] != given),
            )
        )
    return found


def told(reason: Reason, given: int, row: NDArray[np.float64], names: tuple[str, ...]) -> str:
    """The reason in words, by the probabilities [K] that it was read from."""
    best = int(row.argmax())
    return explained(reason, names[given], names[best], float(row[given]), float(row[best]))


def shown_probabilities(
    pred_probs: NDArray[Any] | None, passes: NDArray[Any] | None, rows: NDArray[Any]
) -> NDArray[np.float64] | None:
    """[n,K] the probabilities that reasons are read from, whatever the method looks at.

    The mean of the passes [F,N,K], the softmax where there are none.
    """
    if passes is not None:
        mean: NDArray[np.float64] = np.asarray(passes[:, rows]).mean(axis=0, dtype=np.float64)
        return mean
    return None if pred_probs is None else np.asarray(pred_probs[rows], np.float64)


def sample(data: Dataset, z: int) -> Sample:
    """What there is to see of sample z."""
    if data.kind == "images":
        return Sample(picture=thumbnail(np.asarray(data.inputs[z])))
    if data.kind == "texts":
        return Sample(text=_shortened(str(data.inputs[z]), _TEXT))
    is_frame = hasattr(data.inputs, "iloc")
    values = data.inputs.iloc[z].tolist() if is_frame else data.inputs[z].tolist()
    names = map(str, data.inputs.columns if is_frame else range(len(values)))
    fields = tuple(
        (name, _shortened(f"{value:.6g}" if isinstance(value, float) else str(value), _VALUE))
        for name, value in list(zip(names, values, strict=True))[:_FIELDS]
    )
    return Sample(fields=fields, more_fields=len(values) - len(fields))


def _bars(row: NDArray[np.float64], given: int, best: int, names: tuple[str, ...]) -> list[Bar]:
    shown = np.argsort(-row, kind="stable")[:_BARS].tolist()
    shown = shown if given in shown else [*shown[: _BARS - 1], given]
    roles: dict[int, Literal["given", "suggested"]] = {best: "suggested", given: "given"}
    return [Bar(names[k], float(row[k]), roles.get(k, "other")) for k in shown]


def _flagged_by(errors: LabelErrors, z: int) -> str:
    if errors.by_method:
        times = sum(bool(one.mask[z]) for one in errors.by_method.values())
        return f"{times} of {len(errors.by_method)} methods"
    return errors.method


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
