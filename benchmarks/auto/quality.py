"""How good `auto` is, set by set: average precision and F1 beside the simple rankings and the six
algorithms, the number of errors and its interval, the stated precision, and an audit of forty.

In `benchmarks/`:

    python -m auto.make_sets --data FOLDER --out SETS
    python -m auto.quality --data FOLDER --sets SETS

writes `results/auto.json`, `results/auto.md` and a picture. The sets are listed in `sets.py`;
sets that were not made are left out, and the table says how many.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

import machine
from auto.quality_page import (
    ABOUT,
    AUDIT,
    CLOSE,
    DRAWS,
    SIX,
    draw_pictures,
    find_best_of_six,
    write_page,
)
from auto.sets import PARTS, PUBLISHED_SETS, PUBLISHED_SOFTMAX, THINNED_RATES
from uqled.answer import measure_flags
from uqled.detect.auto.audit import audit_sample, estimate_audit
from uqled.detect.auto.tiers import TIERS, find_agreed_flags
from uqled.detect.find import find_label_errors
from uqled.detect.result import LabelErrors

RESULTS = machine.RESULTS
KINDS = {
    "mcd": "mc-dropout", "members": "ensemble", "bootstrap": "bootstrap", "trees": "members",
    "heads": "heads",
}  # fmt: skip

Bools = NDArray[np.bool_]


class LoadedSet(NamedTuple):
    name: str
    part: str
    kind: str | None
    softmax: Any
    passes: Any
    labels: Any
    true: Any


def load_published_sets(data: Path) -> Iterator[LoadedSet]:
    """Five networks in three ways, softmax alone, and thinned errors."""
    for name in PUBLISHED_SETS:
        with np.load(data / "predictions" / f"{name}.npz") as file:
            passes, labels, true = file["passes"], file["labels"], file["true_labels"]
        inputs = "networks", passes[2], passes
        yield LoadedSet(f"{name}, five networks", "published", *inputs, labels, true)
        two = "networks", passes[0], passes[[0, 3]]
        yield LoadedSet(f"{name}, two networks", "published", *two, labels, true)
        yield LoadedSet(f"{name}, one network", "published", None, passes[2], None, labels, true)
        for rate in THINNED_RATES if name == "cifar10n-worst" else ():
            thin_labels = thin_classes(labels, true, rate)
            yield LoadedSet(
                f"{name} at {rate:.2%}, five networks", "published", *inputs, thin_labels, true
            )
            one = None, passes[1], None
            yield LoadedSet(
                f"{name} at {rate:.2%}, one network", "published", *one, thin_labels, true
            )
    for name in PUBLISHED_SOFTMAX:
        with np.load(data / "predictions" / f"{name}.npz") as file:
            probs, labels, true = file["probs"], file["labels"], file["true_labels"]
        yield LoadedSet(name, "published", None, probs, None, labels, true)


def thin_classes(labels: Any, true: Any, rate: float) -> Any:
    """The labels with so many of their errors left, chosen at random."""
    wrong_rows = np.flatnonzero(labels != true)
    kept_errors = np.random.default_rng(0).permutation(wrong_rows)[: round(rate * len(true))]
    labels_kept = true.copy()
    labels_kept[kept_errors] = labels[kept_errors]
    return labels_kept


def load_made_sets(folder: Path, part: str) -> Iterator[LoadedSet]:
    """The sets of one list that were made."""
    for one in PARTS[part]:
        path = folder / f"{one.name}.npz"
        if path.exists():
            with np.load(path) as file:
                passes = file["passes"] if one.F else None
                yield LoadedSet(
                    one.name, part if part in ABOUT else "earlier", KINDS.get(one.passes),
                    file["probs"], passes, file["labels"], file["true_labels"],
                )  # fmt: skip


def iterate_sets(data: Path, made_folder: Path) -> Iterator[LoadedSet]:
    """All sets, one after the other."""
    yield from load_published_sets(data)
    for part in PARTS:
        yield from load_made_sets(made_folder, part)


def compute_f1(mask: Bools, is_error: Bools) -> float:
    return measure_flags(mask, is_error).f1


def rank_simply(probs: NDArray[Any], labels: Any) -> dict[str, NDArray[Any]]:
    """Self-confidence and normalized margin, higher = more suspect."""
    rows, other = np.arange(len(labels)), np.array(probs, np.float64)
    self_confidence = other[rows, labels].copy()
    other[rows, labels] = -1
    return {
        "self-confidence": -self_confidence,
        "normalized margin": other.max(axis=1) - self_confidence,
    }


def measure_set(one: LoadedSet) -> dict[str, Any]:
    """Everything about one set."""
    is_error = one.labels != one.true
    errors = find_label_errors(
        one.labels, one.softmax, one.passes, method="all", passes_kind=one.kind, progress=False
    )
    by_method = errors.by_method
    auto: LabelErrors = by_method["auto"]
    estimate = auto.estimate
    assert estimate is not None
    number, precision = estimate.number, estimate.precision(auto.mask)
    agreed = find_agreed_flags(estimate) & auto.mask
    wide = estimate.sum_over(np.ones(len(is_error), np.bool_), confidence=0.95)
    mean = one.softmax if one.passes is None else np.mean(one.passes, axis=0, dtype=np.float64)
    rankings = rank_simply(one.softmax, one.labels)
    if one.passes is not None:
        rankings |= {f"{k} of the mean": v for k, v in rank_simply(mean, one.labels).items()}
    places = np.arange(len(is_error))
    for name in SIX:
        if name in by_method:
            rankings[name] = np.empty(len(is_error))
            rankings[name][by_method[name].ranking] = -places
    rankings["auto"] = -auto.scores
    errors_by_rank = np.cumsum(is_error[np.argsort(auto.scores, kind="stable")])
    return {
        "set": one.name,
        "part": one.part,
        "kind": one.kind,
        "N": len(is_error),
        "K": int(mean.shape[1]),
        "F": 0 if one.passes is None else len(one.passes),
        "noise": float(is_error.mean()),
        "accuracy": float(np.mean(np.argmax(mean, axis=1) == one.true)),
        "ap": {k: float(average_precision_score(is_error, v)) for k, v in rankings.items()},
        "f1": {
            **{k: compute_f1(by_method[k].mask, is_error) for k in SIX if k in by_method},
            "argmax": compute_f1(np.argmax(mean, axis=1) != one.labels, is_error),
            "auto": compute_f1(auto.mask, is_error),
        },
        "agreed": compute_f1(auto.tier == TIERS[0], is_error),
        "agreed flags": [int(np.count_nonzero(agreed)), int(is_error[agreed].sum())],
        "best cut": float((2 * errors_by_rank / (places + 1 + errors_by_rank[-1])).max()),
        "errors": int(is_error.sum()),
        "number": [number.value, number.low, number.high],
        "wide": [wide.low, wide.high],
        "flagged": auto.n_flagged,
        "precision": float(is_error[auto.mask].mean()) if auto.n_flagged else 0.0,
        "stated precision": [precision.value, precision.low, precision.high],
        "unsure": estimate.unsure is not None,
        "explanations": {name: float(r.sum()) for name, r in estimate.readings.items()},
        "tiers": {
            tier.name: [
                tier.n_samples,
                tier.precision.value,
                float(is_error[in_tier].mean()),
                tier.precision.low,
                tier.precision.high,
            ]
            for tier in auto.tiers
            for in_tier in [auto.tier == tier.name]
        },
        "likeness": measure_likeness(one, is_error),
        "audit": measure_audit(auto, is_error),
    }


def measure_likeness(one: LoadedSet, is_error: Bools) -> float | None:
    """The likeness of members with which their contradictions tell the true number of errors."""
    if one.passes is None or len(one.passes) < 2:
        return None
    predicted = np.argmax(one.passes, axis=2)
    label = float(np.mean(predicted != one.labels))
    F = len(predicted)
    pairs = [np.mean(predicted[f] != predicted[g]) for f in range(F) for g in range(f)]
    member_error = label - float(
        is_error.mean()
    )  # of the members' errors, if none is where a label errs
    return None if member_error <= 0 else float(1 - np.mean(pairs) / 2 / member_error)


def measure_audit(auto: LabelErrors, is_error: Bools) -> dict[str, Any]:
    """Forty looks with the truth as the reviewer, many times."""
    n_errors, real = is_error.sum(), is_error[auto.mask].mean() if auto.n_flagged else 0.0
    rows = []
    for seed in range(DRAWS):
        audit = audit_sample(auto, AUDIT, seed=seed)
        verdicts = {z: bool(is_error[z]) for z in audit.indices.tolist()}
        result = estimate_audit(auto, audit, verdicts)
        number, precision = result.n_errors, result.precision
        after = auto.with_verdicts(verdicts)
        rows.append(
            [
                number[0.8].value / n_errors,
                *(number[c].low <= n_errors <= number[c].high for c in (0.8, 0.95)),
                *(precision[c].low <= real <= precision[c].high for c in (0.8, 0.95)),
                compute_f1(after.mask, is_error),
            ]
        )
    outcomes = np.array(rows, float)
    names = ("ratio", "covers 80", "covers 95", "precision covers 80", "precision covers 95", "f1")
    means = dict(zip(names, outcomes.mean(axis=0).tolist(), strict=True))
    return means | {"close": float(np.mean(np.abs(outcomes[:, 0] - 1) <= CLOSE))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", type=Path)
    parser.add_argument("--tables-only", action="store_true", help="of what was measured before")
    options = parser.parse_args()
    if options.tables_only:
        stored_result = json.loads((RESULTS / "auto.json").read_text(encoding="utf-8"))
        machine.save(
            "auto", stored_result, write_page(stored_result["sets"], stored_result["machine"])
        )
        draw_pictures(stored_result["sets"], RESULTS)
        return
    if options.data is None or options.sets is None:
        parser.error("--data and --sets say where the data and the sets are")
    rows = []
    for one in iterate_sets(options.data, options.sets):
        rows.append(measure_set(one))
        scores = rows[-1]["ap"]["auto"], rows[-1]["f1"]["auto"], find_best_of_six(rows[-1])[1]
        print(one.name, *(f"{x:.3f}" for x in scores), flush=True)
    about = machine.describe_machine(("uqled", "numpy", "numba", "scikit-learn"))
    machine.save("auto", {"machine": about, "sets": rows}, write_page(rows, about))
    draw_pictures(rows, RESULTS)


if __name__ == "__main__":
    main()
