"""How often flags are right on which `auto`'s explanations agree, on data whose truth is known.

In `benchmarks/`:

    python -m auto.tier_history

The share of wrong labels among such flags of a data set is modelled as a beta distribution. The
log-odds of its mean are a constant plus a slope times the logarithm of how much the explanations
agree on the number of errors: what `level` counts over what `confident` counts, at most 1. Both and
the number of verdicts that this is worth are fitted by maximum likelihood (beta-binomial). They are
the constants in `uqled.detect.auto.tiers`. To see how they do elsewhere, they are fitted again for
each kind of data, without all sets made of it.

Reads `results/auto.json`, writes `results/auto_tier_history.json` and `.md`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import betabinom

import machine
from auto.learned_number import name_family
from uqled.detect.auto.tiers import CERTAIN_SHARE, TIERS, AgreedShare

Floats = NDArray[np.float64]
Row = dict[str, Any]


class Fit(NamedTuple):
    """What the history shows."""

    log_odds: float
    slope: float
    worth: float

    def expect(self, agreement: Floats) -> Floats:
        """[sets] the mean share of wrong labels."""
        mean: Floats = expit(self.log_odds + self.slope * np.log(agreement))
        return mean


class History(NamedTuple):
    """Sets with flags on which the explanations agree."""

    names: list[str]
    agreement: Floats
    n: Floats
    """[sets] how many such flags there are."""
    wrong: Floats
    """[sets] how many of these labels are wrong."""

    def select(self, some: NDArray[np.bool_]) -> History:
        names = [name for name, is_one in zip(self.names, some, strict=True) if is_one]
        return History(names, self.agreement[some], self.n[some], self.wrong[some])


def read_history(rows: list[Row]) -> History:
    names, columns = [], []
    for row in rows:
        n, share = count_agreed(row)
        if n:
            numbers = row["explanations"]
            names.append(row["set"])
            columns.append((min(1.0, numbers["level"] / numbers["confident"]), n, round(n * share)))
    return History(names, *np.array(columns, float).T)


def count_agreed(row: Row) -> tuple[int, float]:
    """How many flags the explanations agree on, and the share of them that is wrong. Older results
    have them as the first tier, which had no further condition then."""
    if "agreed flags" in row:
        n, wrong = row["agreed flags"]
        return n, wrong / max(n, 1)
    n, _, share = row["tiers"].get(TIERS[0], [0, 0.0, 0.0])[:3]
    return n, share


def fit(history: History) -> Fit:
    def lose(parameters: Floats) -> float:
        trial = Fit(parameters[0], parameters[1], float(np.exp(parameters[2])))
        mean = np.clip(trial.expect(history.agreement), 1e-6, 1 - 1e-6)
        a, b = mean * trial.worth, (1 - mean) * trial.worth
        return -float(betabinom.logpmf(history.wrong, history.n, a, b).sum())

    found = minimize(lose, [2.0, 1.0, 1.0], method="Nelder-Mead", options={"maxiter": 2000})
    return Fit(float(found.x[0]), float(found.x[1]), float(np.exp(found.x[2])))


def predict_elsewhere(history: History) -> Floats:
    """[sets,4] the stated share, the ends of its interval and its mean, by what all other data
    show."""
    families = np.array([name_family(name) for name in history.names])
    stated = np.empty((len(families), 4))
    for family in sorted(set(families)):
        own = families == family
        others = fit(history.select(~own))
        means = others.expect(history.agreement)
        for at in np.flatnonzero(own):
            share = AgreedShare(means[at] * others.worth, (1 - means[at]) * others.worth)
            one = share.predict(int(history.n[at]))
            stated[at] = one.value, one.low, one.high, share.mean
    return stated


def write_page(history: History, stated: Floats, best: Fit, about: Row, measured: Row) -> str:
    real, slack = history.wrong / history.n, 0.5 / history.n
    lines = [
        "# What is known of flags on which the explanations agree",
        "",
        f"Code {about['code']}; {machine.format_machine(about)} Made by "
        "`benchmarks/auto/tier_history.py`, which says how, from the results in "
        f"[auto.md](auto.md) (code {measured['code']}).",
        "",
        f"{len(real)} sets have such flags. Fitted to all of them: log-odds {best.log_odds:.3f}, "
        f"slope {best.slope:.3f}, worth {best.worth:.2f} verdicts. The table has what is stated on "
        "each set by a fit without all sets of the same data. The interval is of 80%; the first "
        f"tier has such flags only if their expected share is at least {CERTAIN_SHARE}.",
        "",
        "| sets with | sets | stated, mean | median | real, mean | median "
        "| inside the interval, to half a label | width, mean |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    parts = {
        "such flags": np.ones(len(real), np.bool_),
        "such flags in the first tier": stated[:, 3] >= CERTAIN_SHARE,
        "such flags elsewhere": stated[:, 3] < CERTAIN_SHARE,
    }
    for name, some in parts.items():
        value, low, high = stated[some, :3].T
        is_inside = (low - slack[some] <= real[some]) & (real[some] <= high + slack[some])
        lines.append(
            f"| {name} | {len(value)} | {value.mean():.2f} | {np.median(value):.2f} "
            f"| {real[some].mean():.2f} | {np.median(real[some]):.2f} | {is_inside.mean():.0%} "
            f"| {(high - low).mean():.2f} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    stored = json.loads((machine.RESULTS / "auto.json").read_text(encoding="utf-8"))
    history = read_history(stored["sets"])
    best, stated = fit(history), predict_elsewhere(history)
    about = machine.describe_machine(("uqled", "numpy", "scipy"))
    content = {
        "machine": about,
        "fit": best._asdict(),
        "sets": [
            {"set": name, "agreement": a, "flags": int(n), "wrong": int(w), "stated": s.tolist()}
            for name, a, n, w, s in zip(*history, stated, strict=True)
        ],
    }
    page = write_page(history, stated, best, about, stored["machine"])
    machine.save("auto_tier_history", content, page)


if __name__ == "__main__":
    main()
