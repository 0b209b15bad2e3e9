"""The quality of the model that judges the labels, and what it means for the flags: plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.terminal import escape_controls

#: Below this accuracy, most disagreements are the model's own errors, unless labels are terrible.
_WEAK_ACCURACY = 0.6
_WEAK_SKILL = 0.3  # of the gap between guessing the largest class and perfection
_WEAK_CLASSES = 5  # named at most
_DISCORDANT = 3.0  # standard errors between softmax and mean of passes, to be more than noise
_DISCORDANT_SHARE = 0.005
_ROWS = 8_192  # of passes, averaged at a time
_NEAR_DUPLICATE_SHARE = 0.1  # of the samples, above which they may belong to groups


@dataclass(frozen=True)
class MemberQuality:
    """One member of a committee."""

    name: str
    accuracy: float
    weight: float
    """Of all members, 1."""


@dataclass(frozen=True)
class ModelQuality:
    """How often the model predicts the given label of a sample that it was not trained on."""

    model: str
    accuracy: float
    """Of the softmax."""
    base_rate: float
    """The share of the largest class: what always predicting it would reach."""
    passes_accuracy: float | None
    """Of the mean of the passes."""
    passes_differ: bool
    """Whether the softmax and the mean of the passes differ in accuracy by more than noise."""
    weak_classes: tuple[tuple[str, int, float], ...]
    """(class, samples, share predicted as labelled) of the worst classes, below half of the
    model's own accuracy."""
    members: tuple[MemberQuality, ...] = ()
    """The members of a committee, the best first."""
    samples: int = 0
    near_duplicates: int = 0
    """Samples that are nearly the same as another, by the model's features."""

    @property
    def is_too_weak(self) -> bool:
        """Whether most flags will be the model's own errors."""
        skill = (self.accuracy - self.base_rate) / max(1 - self.base_rate, 1e-9)
        return self.accuracy < _WEAK_ACCURACY or skill < _WEAK_SKILL

    @property
    def may_need_groups(self) -> bool:
        """Whether so many samples are nearly the same that they may come from few people or
        videos."""
        return self.near_duplicates > _NEAR_DUPLICATE_SHARE * self.samples

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> ModelQuality:
        """The inverse of `to_json`; content of another form raises some error."""
        passes = content["passes_accuracy"]
        return cls(
            str(content["model"]),
            _check_share(content["accuracy"]),
            _check_share(content["base_rate"]),
            None if passes is None else _check_share(passes),
            bool(content["passes_differ"]),
            tuple((str(name), int(n), _check_share(x)) for name, n, x in content["weak_classes"]),
            tuple(
                MemberQuality(
                    str(one["name"]), _check_share(one["accuracy"]), _check_share(one["weight"])
                )
                for one in content["members"]
            ),
            int(content.get("samples", 0)),
            int(content.get("near_duplicates", 0)),
        )


def _check_share(value: Any) -> float:
    if not 0 <= float(value) <= 1 + 1e-6:  # weights are rounded sums
        raise ValueError(f"it has {value!r} as a share")
    return float(value)


def measure_model_quality(
    model: str,
    labels: NDArray[np.integer],
    names: Sequence[str],
    pred_probs: NDArray[np.floating],
    passes: NDArray[np.floating] | None = None,
    *,
    members: Mapping[str, float] | None = None,
    near_duplicates: int = 0,
) -> ModelQuality:
    """Measure the model from labels [N], softmax [N,K] and passes [F,N,K]; `members` are a
    committee's weights."""
    right = pred_probs.argmax(axis=1) == labels
    counts = np.bincount(labels, minlength=len(names))
    hits = np.bincount(labels, right, len(names))
    accuracy = float(right.mean())
    shares = hits / np.maximum(counts, 1)
    worst = [k for k in np.argsort(shares, kind="stable") if counts[k] and 2 * shares[k] < accuracy]
    passes_accuracy, differ = None, False
    if passes is not None:
        mean_right = _predict_by_mean(passes) == labels
        passes_accuracy = float(mean_right.mean())
        n_gained, n_lost = np.sum(mean_right & ~right), np.sum(right & ~mean_right)
        differ = bool(
            abs(passes_accuracy - accuracy) > _DISCORDANT_SHARE
            and abs(int(n_gained) - int(n_lost)) > _DISCORDANT * np.sqrt(n_gained + n_lost)
        )
    quality = []
    if members and passes is not None:
        for (name, weight), one in zip(members.items(), passes, strict=True):
            member_accuracy = float((one.argmax(axis=1) == labels).mean())
            quality.append(MemberQuality(name, member_accuracy, float(weight)))
    return ModelQuality(
        model,
        accuracy,
        float(counts.max() / counts.sum()),
        passes_accuracy,
        differ and not members,  # a committee's weights are what makes the difference
        tuple((str(names[k]), int(counts[k]), float(shares[k])) for k in worst[:_WEAK_CLASSES]),
        tuple(sorted(quality, key=lambda one: -one.accuracy)),
        len(labels),
        near_duplicates,
    )


def describe_model_quality(quality: ModelQuality) -> list[str]:
    """Lines for a person, before the flags."""
    model = escape_controls(quality.model)
    lines = [
        f"model {model}: predicts {quality.accuracy:.1%} as labelled, out of fold (always the "
        f"largest class: {quality.base_rate:.1%})"
    ]
    if quality.members:
        best = ", ".join(f"{one.name} {one.accuracy:.1%}" for one in quality.members)
        lines.append(f"its members alone: {best}")
    elif quality.passes_accuracy is not None:
        lines.append(
            f"its softmax: {quality.accuracy:.1%}, the mean of its passes: "
            f"{quality.passes_accuracy:.1%}"
        )
    if quality.weak_classes:
        lines.append(f"weak on: {escape_controls(describe_weak_classes(quality))}")
    return [*lines, *(f"warning: {line}" for line in list_model_warnings(quality))]


def describe_weak_classes(quality: ModelQuality) -> str:
    """Such as `cat (12% of 500), dog (20% of 480)`."""
    return ", ".join(f"{name} ({share:.0%} of {n:,})" for name, n, share in quality.weak_classes)


def list_model_warnings(quality: ModelQuality) -> list[str]:
    """The reasons to doubt the flags, one sentence each."""
    warnings = []
    if quality.passes_differ:
        warnings.append(_describe_difference(quality))
    if quality.is_too_weak:
        warnings.append(
            f"a model that predicts {quality.accuracy:.0%} as labelled is too weak to judge "
            "labels: most flags will be its own errors; try a larger pretrained encoder, more "
            "epochs or more data"
        )
    if quality.may_need_groups:
        warnings.append(
            f"{quality.near_duplicates:,} of {quality.samples:,} samples are nearly the same as "
            "another: if they come from one person, video or page, name that column with --group"
        )
    return warnings


def _describe_difference(quality: ModelQuality) -> str:
    """Whether the softmax or the mean of the passes is worse, what may have caused it, and what
    helps."""
    text = "softmax and mean of passes differ by more than noise: "
    if (quality.passes_accuracy or 0) > quality.accuracy:
        return (
            f"{text}the softmax is worse, so prefer methods that read the passes. "
            "Batch norm after dropout causes this if its statistics are left as trained"
        )
    return (
        f"{text}the passes are worse, so prefer methods that read the softmax. "
        "With Monte Carlo dropout, weaker dropout or more epochs help the passes"
    )


def _predict_by_mean(passes: NDArray[np.floating]) -> NDArray[np.intp]:
    blocks = (passes[:, at : at + _ROWS] for at in range(0, passes.shape[1], _ROWS))
    return np.concatenate([block.mean(axis=0).argmax(axis=1) for block in blocks])
