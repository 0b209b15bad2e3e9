"""The tables and the picture of `quality.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from auto.sets import PARTS
from uqled.answer import SINGLE_NUMBER
from uqled.detect.auto.tiers import TIERS

SIX = ("cl-pbnr", "cl-mcd", "cl-mcd-e", "cl-mcd-ens", "alg-ens-2", "alg-ens-3")
SLACK, FAR = 0.01, 0.05  # below the best of the others
CLOSE = 0.25  # of the count
STATED = 0.05  # precision
AUDIT, DRAWS = 40, 20
ABOUT = {
    "published": "Predictions that others published, as they are, and with only a part of people's "
    "errors left in the labels: curated data, by networks that err more often than the labels.",
    "real": "Tables, texts, people's labels and curated data; listed before anything was tuned.",
    "real held out": "The same of other data, noise and models; scored once, at the end.",
    "human": "People's labels of CIFAR-10 with features of a second network.",
    "earlier": "Of the sets of earlier work, those that were made again, in the order of their "
    "list.",
}


def find_best(values: dict[str, float], names: Any) -> tuple[str, float]:
    scores = {name: values[name] for name in names if name in values}
    name = max(scores, key=lambda n: scores[n])
    return name, scores[name]


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
    gains = [row["ap"]["auto"] - row["ap"]["self-confidence"] for row in rows]
    gaps = [row["f1"]["auto"] - find_best_of_six(row)[1] for row in rows]
    below = [row["f1"]["auto"] - row["f1"]["cl-pbnr"] for row in rows]
    with_passes = [row for row in rows if row["F"]]
    mean_f1 = {k: float(np.mean([row["f1"][k] for row in with_passes])) for k in (*SIX, "argmax")}
    best = max(mean_f1, key=lambda n: mean_f1[n])
    own = float(np.mean([row["f1"]["auto"] for row in with_passes]))
    is_covered = [row["number"][1] <= row["errors"] <= row["number"][2] for row in rows]
    widely = [row["wide"][0] <= row["errors"] <= row["wide"][1] for row in rows]
    sure_rows = [row for row in rows if not row["unsure"]]
    widths = [row["stated precision"][2] - row["stated precision"][1] for row in sure_rows]
    numbers, ranges = (
        [
            row
            for row, width in zip(sure_rows, widths, strict=True)
            if (width <= SINGLE_NUMBER) is is_one
        ]
        for is_one in (True, False)
    )
    right = [abs(row["precision"] - row["stated precision"][0]) <= STATED for row in numbers]
    inside = [
        row["stated precision"][1] <= row["precision"] <= row["stated precision"][2]
        for row in ranges
    ]
    noisy = [row for row in rows if row["noise"] >= 0.01]
    unsure_rows = [row for row in rows if row["unsure"]]
    agreement = [row["agreed"] for row in unsure_rows]
    mean = {
        k: np.mean([row["audit"][k] for row in rows])
        for k in ("covers 80", "covers 95", "precision covers 80", "precision covers 95", "f1")
    }
    return [
        f"- Average precision at least the best of the other rankings, whichever that is, minus "
        f"{SLACK}: {share([g >= -SLACK for g in leads])}; least {min(leads):+.3f}, mean "
        f"{np.mean(leads):+.3f}; against self-confidence alone {np.mean(gains):+.3f} in the mean.",
        f"- F1 at least the best of the six, whichever that is, minus {SLACK}: "
        f"{share([g >= -SLACK for g in gaps])}; minus {FAR}: {share([g >= -FAR for g in gaps])}; "
        f"least {min(gaps):+.3f}, mean {np.mean(gaps):+.3f}.",
        f"- F1 at least that of `cl-pbnr` minus {SLACK}: {share([g >= -SLACK for g in below])}.",
        f"- Mean F1 where there are passes: {own:.3f}; the best fixed method is {best} with "
        f"{mean_f1[best]:.3f}; difference {own - mean_f1[best]:+.3f}.",
        f"- The 80 % interval covers the number of errors: {share(is_covered)}, the 95 % one: "
        f"{share(widely)}.",
        f"- Says 'unsure': {share([row['unsure'] for row in rows])}. Where it does not, the stated "
        f"precision is within 5 points where it is told as a number: {share(right)}; and the 80 % "
        f"interval covers it where only that is told: {share(inside)}.",
        f"- Where it is unsure, the flags have a mean F1 of "
        f"{np.mean([row['f1']['auto'] for row in unsure_rows]):.3f}, and those on which all "
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
        "| tier | sets | stated precision, mean | median | real, mean | median |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name in TIERS:
        shares = np.array([row["tiers"][name][:3] for row in rows if name in row["tiers"]])
        if not len(shares):
            continue
        lines.append(
            f"| {name} | {len(shares)} | {shares[:, 1].mean():.2f} | {np.median(shares[:, 1]):.2f} "
            f"| {shares[:, 2].mean():.2f} | {np.median(shares[:, 2]):.2f} |"
        )
    return lines


def note_tiers(rows: list[dict[str, Any]]) -> list[str]:
    """What has changed since these results, if they are older."""
    if "agreed flags" in rows[0]:
        return []
    return [
        "",
        "The first tier is that of the code named above. Its precision is stated by what is known "
        "of other data since: [auto_tier_history.md](auto_tier_history.md).",
    ]


def format_explanations(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| explanation | sets | estimated / true number, median | 10 % to 90 % of sets |",
        "|---|--:|--:|--:|",
    ]
    for name in ("level", "confident", "members", "trusting"):
        explained_rows = [row for row in rows if name in row["explanations"]]
        ratio = np.array([row["explanations"][name] / row["errors"] for row in explained_rows])
        low, middle, high = np.quantile(ratio, [0.1, 0.5, 0.9])
        lines.append(f"| {name} | {len(explained_rows)} | {middle:.2f} | {low:.2f} to {high:.2f} |")
    return lines


def format_likeness(rows: list[dict[str, Any]]) -> list[str]:
    """Without the held out sets: the constants are these medians, rounded."""
    lines = ["| kind of passes | sets | likeness, median | least | most |", "|---|--:|--:|--:|--:|"]
    for kind in ("networks", "heads", "mc-dropout", "ensemble", "bootstrap", "members"):
        likenesses = [
            row["likeness"]
            for row in rows
            if row["kind"] == kind
            and row["likeness"] is not None
            and row["part"] != "real held out"
        ]
        likeness = [max(one, 0.0) for one in likenesses]
        if likeness:
            lines.append(
                f"| {kind} | {len(likeness)} | {np.median(likeness):.2f} | {min(likeness):.2f} "
                f"| {max(likeness):.2f} |"
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
        *note_tiers(rows),
        "",
        *format_likeness(rows),
    ]
    for part, about in ABOUT.items():
        part_rows = [row for row in rows if row["part"] == part]
        if part_rows:
            lines += ["", f"## The {part} sets", "", about, ""]
            lines += [*list_criteria(part_rows), "", *format_sets(part_rows)]
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
