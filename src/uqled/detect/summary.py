"""What was found, in a few lines of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.auto.estimate import Estimate
from uqled.detect.result import LabelErrors
from uqled.terminal import escape_controls


@dataclass(frozen=True)
class Score:
    """How right flags are; what nothing was asked of is 0."""

    precision: float
    recall: float
    f1: float


def score(mask: NDArray[np.bool_], is_error: NDArray[np.bool_]) -> Score:
    """Flags [N] beside the truth [N].

    >>> score(np.array([True, True, False]), np.array([True, False, False]))
    Score(precision=0.5, recall=1.0, f1=0.6666666666666666)
    """
    both, flagged, wrong = (int(np.count_nonzero(m)) for m in (mask & is_error, mask, is_error))
    return Score(both / max(flagged, 1), both / max(wrong, 1), 2 * both / max(flagged + wrong, 1))


def summary(
    errors: LabelErrors,
    *,
    pairs: int = 5,
    suspects: int = 10,
    ids: list[str] | None = None,
    truth: NDArray[Any] | None = None,
) -> str:
    """How many are flagged, the most confused pairs and the most suspect samples.

    `ids` name the samples; where the `truth` (class numbers) is known, how right each method is.
    """
    share = errors.n_flagged / len(errors)
    lines = [
        f"{errors.n_flagged:,} of {len(errors):,} labels flagged ({share:.2%}) by {errors.method}"
    ]
    lines += _estimated(errors)
    if errors.by_method:
        lines += ["", "flagged by each method:"]
        lines += [f"  {e.n_flagged:>9,}  {name}" for name, e in errors.by_method.items()]
    if not errors.n_flagged:
        return "\n".join(lines)

    lines += ["", "most confused (given -> suggested):"]
    for given, suggested, number in errors.confused_pairs()[:pairs]:
        pair = escape_controls(f"{given} -> {suggested}")
        lines.append(f"  {number:>9,}  {pair}")

    top = errors.ranked[:suspects]
    names, members = errors.labels.names, int(errors.votes.max()) > 1
    rows = [
        ("index" if ids is None else "sample", "given", "suggested", "score", *["votes"] * members)
    ]
    for z in top.tolist():
        given, suggested = names[errors.labels.codes[z]], names[errors.best[z]]
        votes = [str(errors.votes[z])] * members
        texts = map(escape_controls, (str(z) if ids is None else ids[z], given, suggested))
        rows.append((*texts, f"{errors.scores[z]:.4f}", *votes))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += ["", "most suspect:"]
    for row in rows:
        lines.append("  " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)))
    if truth is not None and (errors.labels.codes != truth).any():
        lines += ["", "how right each method is:", *_scores(errors, errors.labels.codes != truth)]
    return "\n".join(lines)


def _estimated(errors: LabelErrors) -> list[str]:
    """How many labels are wrong and how many flags are real, as far as that is known."""
    if errors.estimate is None:
        return []
    about, unsure = errors.estimate, errors.estimate.unsure
    real = found = None
    if errors.n_flagged:
        real = about.precision(errors.mask, confidence=0.8 if unsure is None else 0.95)
        found = about.recall(errors.mask)
    return estimate_lines(about.number, len(errors), real, found, unsure)


def estimate_lines(
    number: Estimate, N: int, real: Estimate | None, found: Estimate | None, unsure: str | None
) -> list[str]:
    """The number of errors among N labels, the shares of flags that are real and of errors that are
    flagged (None where nothing is), and what is not known."""
    lines = [
        f"about {number.value:,.0f} labels are wrong ({number.value / N:.2%}); "
        f"80 % interval {number.low:,.0f} to {number.high:,.0f}"
    ]
    if real is not None and found is not None:
        told = f"{real.low:.0%} to {real.high:.0%}"
        if unsure is None:  # else a number alone would be a guess
            told = f"{real.value:.0%} ({told})"
        lines.append(
            f"of the flags about {told} are real, and they are {found.value:.0%} of all errors "
            f"({found.low:.0%} to {found.high:.0%})"
        )
    else:
        lines.append("no flags reach what was asked for")
    if unsure is not None:
        lines.append(f"unsure: {unsure}")
    return lines


def _scores(errors: LabelErrors, is_error: NDArray[np.bool_]) -> list[str]:
    lines = [f"  {'':22} precision  recall     F1"]
    for name, one in (errors.by_method or {errors.method: errors}).items():
        found = score(one.mask, is_error)
        lines.append(f"  {name:22} {found.precision:9.3f} {found.recall:7.3f} {found.f1:6.3f}")
    return lines
