"""What was found, in a few lines of text."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.detect.result import LabelErrors


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
    if errors.by_method:
        lines += ["", "flagged by each method:"]
        lines += [f"  {e.n_flagged:>9,}  {name}" for name, e in errors.by_method.items()]
    if not errors.n_flagged:
        return "\n".join(lines)

    lines += ["", "most confused (given -> suggested):"]
    for given, suggested, number in errors.confused_pairs()[:pairs]:
        lines.append(f"  {number:>9,}  {given} -> {suggested}")

    top = errors.ranked[:suspects]
    names, members = errors.labels.names, int(errors.votes.max()) > 1
    rows = [
        ("index" if ids is None else "sample", "given", "suggested", "score", *["votes"] * members)
    ]
    for z in top.tolist():
        given, suggested = names[errors.labels.codes[z]], names[errors.best[z]]
        votes = [str(errors.votes[z])] * members
        rows.append(
            (str(z) if ids is None else ids[z], given, suggested, f"{errors.scores[z]:.4f}", *votes)
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += ["", "most suspect:"]
    for row in rows:
        lines.append("  " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)))
    if truth is not None and (errors.labels.codes != truth).any():
        lines += ["", "how right each method is:", *_scores(errors, errors.labels.codes != truth)]
    return "\n".join(lines)


def _scores(errors: LabelErrors, is_error: NDArray[np.bool_]) -> list[str]:
    lines = [f"  {'':22} precision  recall     F1"]
    wrong = int(np.count_nonzero(is_error))
    for name, one in (errors.by_method or {errors.method: errors}).items():
        both = int(np.count_nonzero(one.mask & is_error))
        precision, recall = both / max(one.n_flagged, 1), both / max(wrong, 1)
        f1 = 2 * both / max(one.n_flagged + wrong, 1)
        lines.append(f"  {name:22} {precision:9.3f} {recall:7.3f} {f1:6.3f}")
    return lines
