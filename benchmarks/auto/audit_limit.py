"""What no audit of forty looks can do.

In `benchmarks/`:

    python -m auto.audit_limit --data FOLDER --sets SETS

An estimate whose interval holds by the sampling design alone has to be right in the mean of all
draws (design-unbiased). For these, Godambe and Joshi (1965) have a lower bound of the variance that
is to be expected, whatever the design and the estimator. If sample z is wrong with probability
p(z), independently of the others, and n samples are judged in the mean, it is

    sum over z of  s(z)^2 (1 / d(z) - 1),   s(z) = sqrt(p(z) (1 - p(z))),

where d(z) is the probability of judging z; it is least where d(z) is in proportion to s(z). No
audit knows p. Here it is taken from the truth, as the best rising function of `auto`'s own score
(isotonic regression): an audit that knew it could do as well, and none that goes by this ranking
can do better. The draws whose estimate is within a quarter of the true number are those of a normal
distribution.

Writes `results/auto_audit_limit.json` and `.md`; beside the bound it has what `auto`'s audit did,
from `results/auto.json`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.isotonic import IsotonicRegression

import machine
from auto import quality, quality_page
from uqled.detect.find import find_label_errors

#: Sets with a lower share of wrong labels are not asked for.
LEAST_NOISE = 0.01


def bound_deviation(p: NDArray[np.float64], n: int) -> float:
    """The least standard deviation of an unbiased estimate of sum(p) from n looks."""
    s = np.sqrt(p * (1 - p))
    return float(np.sqrt(max(s.sum() ** 2 / n - (s**2).sum(), 0.0)))


def measure_set(one: quality.LoadedSet) -> dict[str, Any]:
    """The bound of one set, as a share of its number of errors."""
    is_error = one.labels != one.true
    errors = find_label_errors(
        one.labels, one.softmax, one.passes, passes_kind=one.kind, progress=False
    )
    p = IsotonicRegression(out_of_bounds="clip").fit_transform(-errors.scores, is_error)
    deviation = bound_deviation(p, quality_page.AUDIT) / is_error.sum()
    close = 2 * norm.cdf(quality_page.CLOSE / max(deviation, 1e-9)) - 1
    return {
        "set": one.name,
        "N": len(is_error),
        "errors": int(is_error.sum()),
        "deviation": deviation,
        "close": float(close),
    }


def write_page(rows: list[dict[str, Any]], about: dict[str, Any]) -> str:
    close_rates = {row["set"]: row["audit"]["close"] for row in _read_quality()}
    pairs = [(row, close_rates[row["set"]]) for row in rows if row["set"] in close_rates]
    closest = [row["close"] for row, _ in pairs]
    lines = [
        "# What no audit of forty looks can do",
        "",
        f"Code {about['code']}; {machine.format_machine(about)} Made by "
        "`benchmarks/auto/audit_limit.py`, which says what the bound is.",
        "",
        f"On {len(pairs)} sets with at least {LEAST_NOISE:.0%} wrong labels, the number of wrong "
        f"labels is within {quality_page.CLOSE:.0%} in {np.mean([c for _, c in pairs]):.0%} of "
        f"`auto`'s audits. An audit that knew the truth about the score would have it in "
        f"{np.mean(closest):.0%} of its draws. In most draws it is that close on "
        f"{sum(c > 0.5 for _, c in pairs)} sets; at the bound, on {sum(c > 0.5 for c in closest)}.",
        "",
        "| set | samples | errors | least relative deviation | within a quarter, at the bound "
        "| measured |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for row, close in pairs:
        lines.append(
            f"| {row['set']} | {row['N']:,} | {row['errors']:,} | {row['deviation']:.2f} "
            f"| {row['close']:.0%} | {close:.0%} |"
        )
    return "\n".join([*lines, ""])


def _read_quality() -> list[dict[str, Any]]:
    result: dict[str, Any] = json.loads((machine.RESULTS / "auto.json").read_text())
    rows: list[dict[str, Any]] = result["sets"]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", type=Path, required=True)
    options = parser.parse_args()
    rows = []
    for one in quality.iterate_sets(options.data, options.sets):
        if np.mean(one.labels != one.true) >= LEAST_NOISE:
            rows.append(measure_set(one))
            print(json.dumps(rows[-1]), flush=True)
    about = machine.describe_machine(("uqled", "numpy", "scipy", "scikit-learn"))
    result = {"machine": about, "sets": rows}
    machine.save("auto_audit_limit", result, write_page(rows, about))


if __name__ == "__main__":
    main()
