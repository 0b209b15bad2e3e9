"""What was found, in a few lines of text."""

from __future__ import annotations

from uqled.detect.result import LabelErrors


def summary(errors: LabelErrors, *, pairs: int = 5, suspects: int = 10) -> str:
    """How many are flagged, the most confused pairs and the most suspect samples."""
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
    rows = [("index", "given", "suggested", "score", *["votes"] * members)]
    for z in top.tolist():
        given, suggested = names[errors.labels.codes[z]], names[errors.best[z]]
        votes = [str(errors.votes[z])] * members
        rows.append((str(z), given, suggested, f"{errors.scores[z]:.4f}", *votes))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines += ["", "most suspect:"]
    for row in rows:
        lines.append("  " + "  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)))
    return "\n".join(lines)
