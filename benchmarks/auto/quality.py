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
from auto.sets import PARTS, PUBLISHED, PUBLISHED_SOFTMAX, THINNED
from uqled.answer import measure_flags
from uqled.detect.auto.audit import audit_sample, estimate_audit
from uqled.detect.auto.tiers import TIERS
from uqled.detect.find import find_label_errors
from uqled.detect.result import LabelErrors

RESULTS = machine.RESULTS
SIX = ("cl-pbnr", "cl-mcd", "cl-mcd-e", "cl-mcd-ens", "alg-ens-2", "alg-ens-3")
SLACK, FAR = 0.01, 0.05  # below the best of the others
CLOSE = 0.25  # of the count
STATED = 0.05  # precision
AUDIT, DRAWS = 40, 20
KINDS = {
    "mcd": "mc-dropout", "members": "ensemble", "bootstrap": "bootstrap", "trees": "members",
    "heads": "heads",
}  # fmt: skip
ABOUT = {
    "published": "Predictions that others published, as they are, and with only a part of people's "
    "errors left in the labels: curated data, by networks that err more often than the labels.",
    "real": "Tables, texts, people's labels and curated data; listed before anything was tuned.",
    "real held out": "The same of other data, noise and models; scored once, at the end.",
    "human": "People's labels of CIFAR-10 with features of a second network; scored once, at the "
    "end.",
    "earlier": "Of the sets of earlier work, those that were made again, in the order of their "
    "list.",
}

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
    for name in PUBLISHED:
        with np.load(data / "predictions" / f"{name}.npz") as file:
            passes, labels, true = file["passes"], file["labels"], file["true_labels"]
        given = "networks", passes[2], passes
        yield LoadedSet(f"{name}, five networks", "published", *given, labels, true)
        two = "networks", passes[0], passes[[0, 3]]
        yield LoadedSet(f"{name}, two networks", "published", *two, labels, true)
        yield LoadedSet(f"{name}, one network", "published", None, passes[2], None, labels, true)
        for rate in THINNED if name == "cifar10n-worst" else ():
            few = thin_classes(labels, true, rate)
            yield LoadedSet(f"{name} at {rate:.2%}, five networks", "published", *given, few, true)
            one = None, passes[1], None
            yield LoadedSet(f"{name} at {rate:.2%}, one network", "published", *one, few, true)
    for name in PUBLISHED_SOFTMAX:
        with np.load(data / "predictions" / f"{name}.npz") as file:
            probs, labels, true = file["probs"], file["labels"], file["true_labels"]
        yield LoadedSet(name, "published", None, probs, None, labels, true)


def thin_classes(labels: Any, true: Any, rate: float) -> Any:
    """The labels with so many of their errors left, chosen at random."""
    wrong = np.flatnonzero(labels != true)
    some = np.random.default_rng(0).permutation(wrong)[: round(rate * len(true))]
    few = true.copy()
    few[some] = labels[some]
    return few


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
    own = other[rows, labels].copy()
    other[rows, labels] = -1
    return {"self-confidence": -own, "normalized margin": other.max(axis=1) - own}


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
            tier.name: [tier.n_samples, tier.precision.value, float(is_error[in_tier].mean())]
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
    own = label - float(is_error.mean())  # of the members' errors, if none is where a label errs
    return None if own <= 0 else float(1 - np.mean(pairs) / 2 / own)


def measure_audit(auto: LabelErrors, is_error: Bools) -> dict[str, Any]:
    """Forty looks with the truth as the reviewer, many times."""
    wrong, real = is_error.sum(), is_error[auto.mask].mean() if auto.n_flagged else 0.0
    rows = []
    for seed in range(DRAWS):
        audit = audit_sample(auto, AUDIT, seed=seed)
        verdicts = {z: bool(is_error[z]) for z in audit.indices.tolist()}
        result = estimate_audit(auto, audit, verdicts)
        number, precision = result.n_errors, result.precision
        after = auto.with_verdicts(verdicts)
        rows.append(
            [
                number[0.8].value / wrong,
                *(number[c].low <= wrong <= number[c].high for c in (0.8, 0.95)),
                *(precision[c].low <= real <= precision[c].high for c in (0.8, 0.95)),
                compute_f1(after.mask, is_error),
            ]
        )
    outcomes = np.array(rows, float)
    names = ("ratio", "covers 80", "covers 95", "precision covers 80", "precision covers 95", "f1")
    means = dict(zip(names, outcomes.mean(axis=0).tolist(), strict=True))
    return means | {"close": float(np.mean(np.abs(outcomes[:, 0] - 1) <= CLOSE))}


def find_best(values: dict[str, float], names: Any) -> tuple[str, float]:
    some = {name: values[name] for name in names if name in values}
    name = max(some, key=lambda n: some[n])
    return name, some[name]


def find_best_ranking(row: dict[str, Any]) -> tuple[str, float]:
    return find_best(row["ap"], [name for name in row["ap"] if name != "auto"])


def find_best_of_six(row: dict[str, Any]) -> tuple[str, float]:
    return find_best(row["f1"], SIX)


def format_sets(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| set | N | K | F | noise | accuracy | AP: best other | | auto | F1: best of six | "
        "| argmax | auto | best cut | errors | estimated (80 %) | precision | stated "
        "| after an audit: F1 |",
        "|---|--:|--:|--:|--:|--:|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        (ranking, other), (name, six) = find_best_ranking(row), find_best_of_six(row)
        value, low, high = row["number"]
        precision_text = f"{row['stated precision'][0]:.2f}"
        if row["unsure"]:
            precision_text = "unsure, {:.2f} to {:.2f}".format(*row["stated precision"][1:])
        lines.append(
            f"| {row['set']} | {row['N']:,} | {row['K']} | {row['F']} | {row['noise']:.4f} "
            f"| {row['accuracy']:.3f} | {ranking} | {other:.3f} | {row['ap']['auto']:.3f} "
            f"| {name} | {six:.3f} | {row['f1']['argmax']:.3f} | {row['f1']['auto']:.3f} "
            f"| {row['best cut']:.3f} | {row['errors']:,} "
            f"| {value:,.0f} ({low:,.0f} to {high:,.0f}) "
            f"| {row['precision']:.2f} | {precision_text} | {row['audit']['f1']:.3f} |"
        )
    return lines


def list_criteria(rows: list[dict[str, Any]]) -> list[str]:
    """What was asked for, each with how many sets meet it."""

    def share(hits: list[Any]) -> str:
        return f"{sum(map(bool, hits))} of {len(hits)}"

    leads = [row["ap"]["auto"] - find_best_ranking(row)[1] for row in rows]
    plain = [row["ap"]["auto"] - row["ap"]["self-confidence"] for row in rows]
    gaps = [row["f1"]["auto"] - find_best_of_six(row)[1] for row in rows]
    below = [row["f1"]["auto"] - row["f1"]["cl-pbnr"] for row in rows]
    with_passes = [row for row in rows if row["F"]]
    mean_f1 = {k: float(np.mean([row["f1"][k] for row in with_passes])) for k in (*SIX, "argmax")}
    best = max(mean_f1, key=lambda n: mean_f1[n])
    own = float(np.mean([row["f1"]["auto"] for row in with_passes]))
    is_covered = [row["number"][1] <= row["errors"] <= row["number"][2] for row in rows]
    widely = [row["wide"][0] <= row["errors"] <= row["wide"][1] for row in rows]
    sure = [row for row in rows if not row["unsure"]]
    right = [abs(row["precision"] - row["stated precision"][0]) <= STATED for row in sure]
    noisy = [row for row in rows if row["noise"] >= 0.01]
    unsure = [row for row in rows if row["unsure"]]
    agreement = [row["agreed"] for row in unsure]
    mean = {
        k: np.mean([row["audit"][k] for row in rows])
        for k in ("covers 80", "covers 95", "precision covers 80", "precision covers 95", "f1")
    }
    return [
        f"- Average precision at least the best of the other rankings, whichever that is, minus "
        f"{SLACK}: {share([g >= -SLACK for g in leads])}; least {min(leads):+.3f}, mean "
        f"{np.mean(leads):+.3f}; against self-confidence alone {np.mean(plain):+.3f} in the mean.",
        f"- F1 at least the best of the six, whichever that is, minus {SLACK}: "
        f"{share([g >= -SLACK for g in gaps])}; minus {FAR}: {share([g >= -FAR for g in gaps])}; "
        f"least {min(gaps):+.3f}, mean {np.mean(gaps):+.3f}.",
        f"- F1 at least that of `cl-pbnr` minus {SLACK}: {share([g >= -SLACK for g in below])}.",
        f"- Mean F1 where there are passes: {own:.3f}; the best fixed method is {best} with "
        f"{mean_f1[best]:.3f}; difference {own - mean_f1[best]:+.3f}.",
        f"- The 80 % interval covers the number of errors: {share(is_covered)}, the 95 % one: "
        f"{share(widely)}.",
        f"- Says 'unsure': {share([row['unsure'] for row in rows])}; stated precision within 5 "
        f"points where it is told as a number: {share(right)}.",
        f"- Where it is unsure, the flags have a mean F1 of "
        f"{np.mean([row['f1']['auto'] for row in unsure]):.3f}, and those on which all "
        f"explanations agree (the first tier) alone {np.mean(agreement):.3f}.",
        f"- After an audit of {AUDIT} ({DRAWS} draws per set): the 80 % interval of the number "
        f"covers {mean['covers 80']:.0%}, the 95 % one {mean['covers 95']:.0%}; of the precision "
        f"{mean['precision covers 80']:.0%} and {mean['precision covers 95']:.0%}. Where at least "
        f"1 % is wrong, the number is within 25 % in "
        f"{np.mean([row['audit']['close'] for row in noisy]):.0%} of the draws, and in most draws "
        f"on {share([row['audit']['close'] > 0.5 for row in noisy])} sets. Mean F1 goes from "
        f"{np.mean([row['f1']['auto'] for row in rows]):.3f} to {mean['f1']:.3f}, below the best "
        f"cut by {np.median([row['best cut'] - row['audit']['f1'] for row in rows]):.3f} in the "
        "median.",
    ]


def format_tiers(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| tier | sets | stated precision, mean | real, mean | real, median |",
        "|---|--:|--:|--:|--:|",
    ]
    for name in TIERS:
        some = np.array([row["tiers"][name] for row in rows if name in row["tiers"]])
        if not len(some):
            continue
        lines.append(
            f"| {name} | {len(some)} | {some[:, 1].mean():.2f} | {some[:, 2].mean():.2f} "
            f"| {np.median(some[:, 2]):.2f} |"
        )
    return lines


def format_explanations(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| explanation | sets | estimated / true number, median | 10 % to 90 % of sets |",
        "|---|--:|--:|--:|",
    ]
    for name in ("level", "confident", "members", "trusting"):
        some = [row for row in rows if name in row["explanations"]]
        ratio = np.array([row["explanations"][name] / row["errors"] for row in some])
        low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9])
        lines.append(f"| {name} | {len(some)} | {middle:.2f} | {low:.2f} to {high:.2f} |")
    return lines


def format_likeness(rows: list[dict[str, Any]]) -> list[str]:
    """Without the held out sets: the constants are these medians, rounded."""
    lines = ["| kind of passes | sets | likeness, median | least | most |", "|---|--:|--:|--:|--:|"]
    for kind in ("networks", "heads", "mc-dropout", "ensemble", "bootstrap", "members"):
        some = [
            row["likeness"]
            for row in rows
            if row["kind"] == kind
            and row["likeness"] is not None
            and row["part"] != "real held out"
        ]
        some = [max(one, 0.0) for one in some]
        if some:
            lines.append(
                f"| {kind} | {len(some)} | {np.median(some):.2f} | {min(some):.2f} "
                f"| {max(some):.2f} |"
            )
    return lines


def write_page(rows: list[dict[str, Any]], m: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    n_listed = sum(map(len, PARTS.values()))
    n_made = sum(row["part"] != "published" for row in rows)
    lines = [
        "# `auto` beside the simple rankings and the six algorithms",
        "",
        f"{m['date']}, code {m['code']}; Python {m['python']}, {versions}. Made by "
        "`benchmarks/auto/quality.py`; the sets are in `benchmarks/auto/sets.py`, of which "
        f"{n_made} of {n_listed} were made this time. Each has one seed. The noise is the share of "
        "labels that are wrong, the accuracy that of the mean of the passes (of the softmax, where "
        "there are none). F = 0: softmax alone, and of the six only `cl-pbnr`.",
        "",
        "## All sets together",
        "",
        *list_criteria(rows),
        "",
        *format_explanations(rows),
        "",
        *format_tiers(rows),
        "",
        *format_likeness(rows),
    ]
    for part, about in ABOUT.items():
        some = [row for row in rows if row["part"] == part]
        if some:
            lines += ["", f"## The {part} sets", "", about, ""]
            lines += [*list_criteria(some), "", *format_sets(some)]
    return "\n".join([*lines, ""])


def draw_pictures(rows: list[dict[str, Any]], folder: Path) -> None:
    """Where each kind of method is best: noise over the model's own error."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    x = np.array([row["noise"] / max(1 - row["accuracy"], 1e-3) for row in rows])
    for name, marker in (("cl-pbnr", "o"), ("argmax", "^"), ("auto", "*")):
        y = [row["f1"][name] - row["best cut"] for row in rows]
        left.scatter(x, y, marker=marker, s=28, label=name, alpha=0.8)
    left.set(xscale="log", xlabel="noise / the model's own error", ylabel="F1 - F1 of the best cut")
    left.axhline(0, color="grey", linewidth=0.8)
    left.legend()
    ratio = np.array([[v / row["errors"] for v in row["number"]] for row in rows])
    right.errorbar(
        x,
        ratio[:, 0],
        yerr=np.abs(ratio[:, 1:].T - ratio[:, 0]),
        fmt="*",
        elinewidth=0.8,
        capsize=2,
    )
    right.axhline(1, color="grey", linewidth=0.8)
    right.set(
        xscale="log", yscale="log", xlabel="noise / the model's own error",
        ylabel="estimated / true number of errors",
    )  # fmt: skip
    figure.savefig(folder / "auto.png", dpi=110)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", type=Path)
    parser.add_argument("--tables-only", action="store_true", help="of what was measured before")
    options = parser.parse_args()
    if options.tables_only:
        stored = json.loads((RESULTS / "auto.json").read_text(encoding="utf-8"))
        machine.save("auto", stored, write_page(stored["sets"], stored["machine"]))
        draw_pictures(stored["sets"], RESULTS)
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
