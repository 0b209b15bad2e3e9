"""How often an offer of the review page to accept many suggestions at once keeps its promise.

    python -m review_page.promises --data FOLDER --runs RUNS     # an hour on two cores
    python -m review_page.promises --data FOLDER --runs RUNS --only adult --seeds 1   # not saved

An offer says that at least so many of its labels are wrong, and is meant to be right in 95 of 100.
Here a scripted reviewer who knows the truth decides, and after every few decisions each offer is
compared with the truth. The sets and their wrong labels are those of `data_to_flags`; predictions
are by the default model, and are kept in RUNS.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from math import floor
from pathlib import Path
from typing import Any

import numpy as np

import machine
from data_to_flags.quality import SETS, iterate_cases, name_cell
from uqled.detect.find import find_label_errors
from uqled.detect.result import LabelErrors
from uqled.predict.crossval import cross_validate
from uqled.review.decisions import Decisions
from uqled.review.estimates import BulkOffer
from uqled.review.orders import list_in_order
from uqled.review.session import ReviewSession
from uqled.storage.run import Predictions, Run

SAMPLES = 3_000  # per set
SEEDS = 3
RATES = (0.03, 0.1, 0.2)  # of wrong labels
DECISIONS = 200  # of a review
STEP = 10  # decisions between two looks at the offers
ACCEPT = "accept"
#: How a reviewer works: how many decisions in which order, and whether every offer is accepted.
WAYS: dict[str, list[tuple[str, int]]] = {
    "from the top": [("suspect", DECISIONS)],
    "what tells most first": [("worth", DECISIONS)],
    "fifty at random, then from the top": [("hundred", 50), ("suspect", DECISIONS)],
    "a hundred at random, then from the top": [("hundred", 100), ("suspect", DECISIONS)],
    "from the top, accepting the largest offer": [("suspect", DECISIONS), (ACCEPT, 0)],
}


def predict_missing(folder: Path, runs: Path, n: int, seed: int, only: list[str] | None) -> None:
    """A run of the default model for every set and noise that has none."""

    def is_done(name: str) -> bool:
        is_left_out = only is not None and name.split(",")[0] not in only
        return is_left_out or (name_run(runs, name, seed) / "pred_probs.npy").exists()

    for case in iterate_cases(folder, n, seed, is_done, RATES):
        if not is_done(case.name):
            data = replace(case.data, truth=case.true.astype(np.int32))
            cross_validate(data, out=name_run(runs, case.name, seed), seed=seed, progress=False)
            print("predicted", case.name, seed, flush=True)


def name_run(runs: Path, case: str, seed: int) -> Path:
    return name_cell(runs, case, seed).with_suffix("")


def review(predictions: Predictions, errors: LabelErrors, way: str) -> Iterator[list[BulkOffer]]:
    """The offers after every few decisions."""
    truth, labels = predictions.truth, predictions.labels.codes
    assert truth is not None
    accepts = (ACCEPT, 0) in WAYS[way]
    with tempfile.TemporaryDirectory() as folder:
        decisions = Decisions(
            Path(folder) / "decisions.sqlite",
            n_samples=len(predictions),
            classes=predictions.labels.names,
        )
        session = ReviewSession(predictions, errors, decisions, None, reviewer="script")
        flags = session.get_list("auto")
        for order, most in WAYS[way]:
            for _ in range(most // STEP):
                order_of_samples = list_in_order(flags, order, None)  # type: ignore[arg-type]
                next_samples = order_of_samples[flags.state.actions[order_of_samples] == 0][:STEP]
                if not len(next_samples):
                    break
                decisions.decide(
                    [
                        (i, "keep", None)
                        if truth[i] == labels[i]
                        else (i, "relabel", int(truth[i]))
                        for i in next_samples.tolist()
                    ],
                    reviewer="script",
                )
                estimates = session.estimate(flags)
                assert estimates is not None
                yield estimates.bulk
                if accepts and estimates.bulk:
                    largest = max(estimates.bulk, key=lambda offer: offer.n)
                    suggested = flags.current.suggested_codes
                    decisions.decide(
                        [(i, "relabel", int(suggested[i])) for i in largest.indices],
                        reviewer="script",
                        in_bulk=True,
                    )
        decisions.close()


def judge_offers(predictions: Predictions, errors: LabelErrors, way: str) -> dict[str, Any]:
    """How many offers one review had, how many kept their promise, and what was in them."""
    is_wrong = predictions.truth != predictions.labels.codes
    offers = [offer for offers in review(predictions, errors, way) for offer in offers]
    numbers = [int(is_wrong[list(offer.indices)].sum()) for offer in offers]
    is_kept = [n >= floor(one.errors.low) for n, one in zip(numbers, offers, strict=True)]
    shares = [n / offer.n for n, offer in zip(numbers, offers, strict=True)]
    return {
        "offers": len(offers),
        "kept": sum(is_kept),
        "labels": sum(offer.n for offer in offers),
        "wrong": sum(numbers),
        "expected": float(sum(offer.errors.value for offer in offers)),
        "largest": max((offer.n for offer in offers), default=0),
        "least share": min(shares, default=None),
    }


def measure(runs: Path, n_seeds: int, only: list[str] | None) -> list[dict[str, Any]]:
    """A row per set, noise, seed and way of reviewing."""
    rows = []
    for path in sorted(path.parent for path in runs.glob("*/pred_probs.npy")):
        name, seed = path.name.rsplit("-seed", 1)
        family = next(one for one, *_ in SETS if name.startswith(name_run(runs, one, 0).name[:-6]))
        if int(seed) >= n_seeds or (only is not None and family not in only):
            continue
        predictions = Run.open(path).predictions()
        errors = find_label_errors(predictions, progress=False)
        for way in WAYS:
            row = {"set": family, "case": name, "seed": int(seed), "way": way}
            rows.append(row | judge_offers(predictions, errors, way))
    return rows


def format_table(result: dict[str, Any]) -> str:
    rows = result["rows"]
    lines = [
        "# Offers to accept many suggestions at once",
        "",
        f"A reviewer who knows the truth makes up to {DECISIONS} decisions on each run; after "
        f"every {STEP}, every offer of the page is compared with the truth. An offer keeps its "
        "promise if "
        "at least as many of its labels are wrong as it says; 95 of 100 should. "
        f"{result['samples']:,} samples per set, {result['seeds']} seed(s), wrong labels of 3, "
        "10 and 20 % (evenly, and to a similar class) and by people. Labels that are wrong in the "
        "published sets, as some of banking77 are, count as right here.",
        "",
        "| reviewed | set | reviews | with an offer | offers | kept "
        "| labels in them that are wrong | expected | reviews with a broken one |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for way in WAYS:
        for family in [*dict.fromkeys(row["set"] for row in rows), "all"]:
            way_rows = [row for row in rows if row["way"] == way and family in ("all", row["set"])]
            n_offers, n_labels = (sum(row[key] for row in way_rows) for key in ("offers", "labels"))
            cells = [
                way,
                family,
                len(way_rows),
                sum(row["offers"] > 0 for row in way_rows),
                n_offers,
            ]
            cells += [
                f"{sum(row[key] for row in way_rows) / total:.1%}" if total else ""
                for key, total in (("kept", n_offers), ("wrong", n_labels), ("expected", n_labels))
            ]
            cells.append(sum(row["kept"] < row["offers"] for row in way_rows))
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join([*lines, "", machine.format_machine(result["machine"]), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True, help="where predictions are kept")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--only", nargs="*", help="names of sets; nothing is saved")
    arguments = parser.parse_args()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    for seed in range(arguments.seeds):
        predict_missing(arguments.data, arguments.runs, arguments.samples, seed, arguments.only)
    result = {
        "machine": machine.describe_machine(("uqled", "numpy", "scikit-learn")),
        "samples": arguments.samples,
        "seeds": arguments.seeds,
        "rows": measure(arguments.runs, arguments.seeds, arguments.only),
    }
    if arguments.only:
        print(format_table(result))
    else:
        machine.save("review_promises", result, format_table(result))


if __name__ == "__main__":
    main()
