"""How many actions and seconds a reviewer who knows the truth needs: one by one, and in groups.

    python -m review_page.decisions              counts the actions
    python -m review_page.decisions --browser    presses the keys in a browser, too: 3 minutes

The seconds are those of the page: a scripted reviewer needs none to look. An action is a key press
or a click. One by one, every flag takes one. In groups, a sheet takes one click for each that does
not belong and one key for the rest; what was left out is decided one by one in the end.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import machine

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "shared"))

from review_runs import finish
from uqled.data import Dataset
from uqled.detect.find import find_label_errors
from uqled.review.decisions import Decisions
from uqled.review.groups import list_groups
from uqled.review.session import ReviewSession

SAMPLES = 3000  # of the run in the browser
MAX_SETTLED = 300  # labels settled there
PATIENCE = 5.0  # seconds for a decision to be counted, after which the reviewer looks again


def make_session(folder: Path, N: int, K: int, margin: float) -> ReviewSession:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, K, N)
    names = np.array([f"class {k:02d}" for k in range(K)])
    data = Dataset.from_arrays(rng.normal(size=(N, 2)), names[codes])
    predictions = finish(folder / "run", data, wrong=0.1, margin=margin).predictions()
    errors = find_label_errors(predictions, method="all")
    return ReviewSession(predictions, errors, Decisions.of(predictions), None, reviewer="script")


def count_actions(session: ReviewSession) -> tuple[int, int, int]:
    """(flags settled, actions in groups, of these on single samples)."""
    flags, predictions = session.get_list(None), session.predictions
    truth, labels = predictions.truth, predictions.labels.codes
    assert truth is not None
    actions, settled_samples, n_decided = 0, set[int](), 0
    while True:
        session.update()
        groups, _ = list_groups(flags, predictions, 1000)
        group = next(
            (one for one in groups if not settled_samples.issuperset(one.indices.tolist())), None
        )
        if group is None:
            break
        indices = [i for i in group.indices.tolist() if i not in settled_samples]
        suggested = group.suggested
        fits = [i for i in indices if truth[i] == suggested]
        keeps = [i for i in indices if truth[i] == labels[i]]
        choices = fits if len(fits) >= len(keeps) else keeps
        outside = [i for i in indices if i not in choices]
        settled_samples |= set(outside)
        actions += len(outside) + 1
        n_decided += len(choices)
        if not choices:
            continue
        action = ("relabel", suggested) if choices is fits else ("keep", None)
        items: Any = [(i, *action) for i in choices]
        session.decisions.decide(items, reviewer="script")
    single = len(flags.list_undecided())
    return n_decided + single, actions + single, single


def review_in_browser(folder: Path, *, in_groups: bool) -> tuple[int, int, float]:
    """(labels settled, key presses and clicks, seconds) on the page, until `MOST` are settled."""
    from playwright.sync_api import sync_playwright

    from review_runs import image_run
    from uqled.review.serve import serve_review

    classes = tuple(f"class {k}" for k in range(10))
    predictions = image_run(folder, N=SAMPLES, classes=classes, margin=3.0).predictions()
    truth, labels, names = predictions.truth, predictions.labels.codes, predictions.labels.names
    assert truth is not None
    number = {name: at for at, name in enumerate(predictions.ids)}
    with serve_review(predictions, port=0) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.add_init_script("localStorage.setItem('helped', 'yes')")
        page.goto(address)
        page.wait_for_selector(".card")
        actions, began = 0, time.perf_counter()
        if in_groups:
            page.keyboard.press("g")
        while _count_decided_samples(page) < MAX_SETTLED:
            before = _count_decided_samples(page)
            if in_groups:
                page.wait_for_selector(".tile")
                suggested = names.index(page.locator("#groups h2 b").last.inner_text())
                tiles = [number[str(t.get_attribute("title"))] for t in page.locator(".tile").all()]
                fits = [truth[i] == suggested for i in tiles]
                keeps = [truth[i] == labels[i] for i in tiles]
                unclear = [not (fit or keep) for fit, keep in zip(fits, keeps, strict=True)]
                answers = {"w": fits, "q": keeps, "e": unclear}
                key = max(answers, key=lambda one: sum(answers[one]))
                for at in (at for at, is_chosen in enumerate(answers[key]) if not is_chosen):
                    page.locator(".tile").nth(at).click()
                    actions += 1
                page.keyboard.press(key)
            else:
                index = int(page.locator(".card.active").get_attribute("data-index") or 0)
                suggested = page.locator(".card.active .suggested .name").inner_text()
                is_kept = truth[index] == labels[index]
                page.keyboard.press(
                    "q" if is_kept else "w" if names[truth[index]] == suggested else "e"
                )
            actions += 1
            # A key that came while the list was ordered anew may have met a decided sample.
            until = time.perf_counter() + PATIENCE
            while _count_decided_samples(page) == before and time.perf_counter() < until:
                time.sleep(0.005)
        seconds, n_decided = time.perf_counter() - began, _count_decided_samples(page)
        browser.close()
    return n_decided, actions, seconds


def _count_decided_samples(page: Any) -> int:
    return int(page.locator("#progress").get_attribute("aria-valuenow"))


def time_in_browser() -> list[dict[str, Any]]:
    rows = []
    for name, in_groups in (("one by one", False), ("in groups", True)):
        with tempfile.TemporaryDirectory() as folder:
            n_decided, actions, seconds = review_in_browser(Path(folder), in_groups=in_groups)
        rows.append({"way": name, "settled": n_decided, "actions": actions, "seconds": seconds})
    return rows


def count_all() -> list[dict[str, Any]]:
    rows = []
    for N, K, margin in ((6000, 10, 4.5), (6000, 10, 3.0), (6000, 20, 4.5), (6000, 4, 4.5)):
        with tempfile.TemporaryDirectory() as folder:
            session = make_session(Path(folder), N, K, margin)
            first = session.get_list(None).first
            is_error = session.predictions.truth != session.predictions.labels.codes
            n_decided, actions, _ = count_actions(session)
            session.decisions.close()
        real = float(is_error[first.mask].mean())
        rows.append({"samples": N, "classes": K, "flags": first.n_flagged, "real": real})
        rows[-1] |= {"settled": n_decided, "actions": actions}
    return rows


def format_tables(result: dict[str, Any]) -> str:
    lines = [
        "# Actions of a reviewer who knows the truth",
        "",
        "Key presses and clicks to settle every flag, one by one and in groups, by "
        "`benchmarks/review_page/decisions.py` (made-up predictions, 10 % of the labels wrong). "
        "The list follows the decisions, so that more samples are settled than were flagged at "
        "first.",
        "",
        "| samples | classes | flags | real | one by one | in groups | actions per label |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["counts"]:
        share = row["actions"] / row["settled"]
        lines.append(
            f"| {row['samples']:,} | {row['classes']} | {row['flags']:,} | {row['real']:.0%} "
            f"| {row['settled']:,} | {row['actions']:,} | {share:.2f} |"
        )
    if result["browser"]:
        lines += [
            "",
            f"The first {MAX_SETTLED} labels in Chromium ({SAMPLES:,} pictures of 10 classes, "
            "20 % of the labels wrong). The seconds are those of the page: the script needs none "
            "to look.",
            "",
            "| in the browser | labels settled | actions | actions per label | seconds per label |",
            "|---|---|---|---|---|",
        ]
    for row in result["browser"]:
        shares = f"{row['actions'] / row['settled']:.2f} | {row['seconds'] / row['settled']:.3f}"
        lines.append(f"| {row['way']} | {row['settled']} | {row['actions']} | {shares} |")
    return "\n".join([*lines, "", machine.format_machine(result["machine"]), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--browser", action="store_true", help="Press the keys in a browser, too.")
    arguments = parser.parse_args()
    result = {"machine": machine.describe_machine(("uqled", "numpy")), "counts": count_all()}
    result["browser"] = time_in_browser() if arguments.browser else []
    machine.save("review_decisions", result, format_tables(result))


if __name__ == "__main__":
    main()
