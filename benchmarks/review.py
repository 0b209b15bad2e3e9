"""The review page under load: a page of 100 thumbnails out of 100,000 flagged samples beside 1,000.

    python benchmarks/review.py            a minute or two on two cores
    python benchmarks/review.py --small    a few seconds, to try it out

Both runs are served at the same time and take turns, so that whatever else the machine does falls
on both. A page is what a browser asks for when a reviewer turns one: the list of 100 samples and
their 100 pictures, none of which was asked for before. It is measured at the top and in the middle
of the ranking, and with filters. Beside it: one decision until its answer, also while the estimate
of how many labels are wrong is brought up to date; that estimate; and opening.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

import machine
from uqled.data import Dataset
from uqled.review.serve import serve_review
from uqled.storage.run import Run

CLASSES = 100
SIDE = 64  # pixels
THUMBNAILS = 100
WAYS = {  # each in a part of the ranking of its own, so that no picture is ready
    "top of the ranking": ("", 0.0),
    "middle of the ranking": ("", 0.4),
    "one state and one reason": ("&state=undecided&reason=wrong+label", 0.7),
}


def made_run(folder: Path, flagged: int) -> tuple[Run, Dataset]:
    """A run in which `flagged` of twice as many labels are wrong, and the model sure of it."""
    rng = np.random.default_rng(0)
    N = 2 * flagged
    truth = rng.integers(0, CLASSES, N)
    wrong = rng.permutation(N) < flagged
    labels = np.where(wrong, (truth + 1) % CLASSES, truth)
    probs = np.full((N, CLASSES), 0.1 / (CLASSES - 1), np.float32)
    probs[np.arange(N), truth] = 0.9
    picture = rng.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    images = np.broadcast_to(picture, (N, SIDE, SIDE, 3))  # the same one costs as much each time
    data = Dataset.from_arrays(images, labels, classes=[f"class {k}" for k in range(CLASSES)])
    run = Run.begin(folder / "run", {"made": "for a benchmark"})
    run.write_data(data.labels, data.ids.tolist(), None, np.zeros(N, np.int32))
    run.write_fold(0, probs, None)
    run.write_predictions([np.arange(N)], CLASSES)
    return run, data


class Browser:
    """One connection that stays open, as a browser's does."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.path = parts.path
        self.origin = f"http://{parts.netloc}"
        self.connection = http.client.HTTPConnection(parts.netloc)

    def get(self, path: str) -> bytes:
        self.connection.request("GET", self.path + path)
        return self._answer()

    def decide(self, sample: int) -> None:
        body = {"items": [[sample, "drop", None]], "seen": {}, "reviewer": "bench", "tab": ""}
        headers = {"Content-Type": "application/json", "Origin": self.origin}
        self.connection.request("POST", f"{self.path}api/decide", json.dumps(body), headers)
        self._answer()

    def _answer(self) -> bytes:
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return body

    @contextmanager
    def estimating(self) -> Iterator[None]:
        """The page asks for the estimate all the time, over a connection of its own."""
        done = threading.Event()

        def ask() -> None:
            other = Browser(f"{self.origin}{self.path}")
            while not done.is_set():
                other.get("api/estimates")
            other.connection.close()

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def page(self, query: str) -> list[int]:
        """The list and its pictures; returns the samples."""
        found = json.loads(self.get(f"api/samples?size={THUMBNAILS}{query}"))
        indices = [row["index"] for row in found["samples"]]
        assert len(indices) == THUMBNAILS, len(indices)
        for index in indices:
            self.get(f"thumbnail/{index}")
        return indices


@contextmanager
def served(run: Run, data: Dataset) -> Iterator[tuple[Browser, float]]:
    """A browser on the page, and the seconds until it had the first list."""
    began = time.perf_counter()
    with serve_review(run, data=data, port=0) as address:
        browser = Browser(address)
        found = json.loads(browser.get("api/start"))
        assert found["counts"]["flagged"] > len(data) // 3, found["counts"]
        taken = time.perf_counter() - began
        browser.connection.close()  # it is opened anew: the server does not keep an idle one
        yield browser, taken


def measured(sizes: tuple[int, int], repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        runs = []
        for flagged in sizes:
            (Path(place) / str(flagged)).mkdir()
            runs.append(made_run(Path(place) / str(flagged), flagged))
        for run, data in runs:  # compiled and read once
            with served(run, data):
                pass
        pages: dict[str, list[list[float]]] = {name: [[], []] for name in WAYS}
        decisions: list[list[float]] = [[], []]
        meanwhile: list[list[float]] = [[], []]
        estimates: list[list[float]] = [[], []]
        opening: list[list[float]] = [[], []]
        for turn in range(repeats):
            with served(*runs[0]) as (one, first), served(*runs[1]) as (other, second):
                opening[0].append(first)
                opening[1].append(second)
                both = [(one, 0), (other, 1)][:: 1 if turn % 2 else -1]
                for name, (query, part) in WAYS.items():
                    for browser, which in both:
                        asked = f"{query}&from={int(part * sizes[which])}"
                        page = partial(browser.page, asked)
                        pages[name][which] += machine.seconds(page, 1)
                for sample in range(10):
                    for browser, which in both:
                        decide = partial(browser.decide, 20 * turn + sample)
                        decisions[which] += machine.seconds(decide, 1)
                        estimates[which] += machine.seconds(
                            partial(browser.get, "api/estimates"), 1
                        )
                for browser, which in both:
                    with browser.estimating():
                        for sample in range(10, 20):
                            decide = partial(browser.decide, 20 * turn + sample)
                            meanwhile[which] += machine.seconds(decide, 1)
        return {
            "sizes": list(sizes),
            "pages": {name: [machine.spread(t) for t in times] for name, times in pages.items()},
            "decision": [machine.spread(times) for times in decisions],
            "meanwhile": [machine.spread(times) for times in meanwhile],
            "estimate": [machine.spread(times) for times in estimates],
            "opening": [machine.spread(times) for times in opening],
        }


def ratio(pair: list[dict[str, Any]]) -> float:
    return float(pair[1]["median"] / pair[0]["median"])


def table(result: dict[str, Any]) -> str:
    few, many = (f"{size:,}" for size in result["sizes"])
    worst = max(map(ratio, result["pages"].values()))
    lines = [
        "# The review page under load",
        "",
        f"Seconds for a page of {THUMBNAILS} samples, none of whose {SIDE} x {SIDE} pictures was "
        f"asked for before: median (least to most) of {result['repeats']} new servers each. Goal: "
        f"out of {many} flagged samples at most twice as long as out of {few}.",
        "",
        f"| page | {few} flagged | {many} flagged | ratio |",
        "|---|---|---|---|",
    ]
    for name, pair in [
        *result["pages"].items(),
        ("one decision, until its answer", result["decision"]),
        ("the same while the estimate is updated", result["meanwhile"]),
        ("the estimate, after a decision", result["estimate"]),
    ]:
        cells = [f"{p['median']:.4f} ({p['least']:.4f} to {p['most']:.4f})" for p in pair]
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio(pair):.2f} |")
    opening = [f"{times['median']:.2f} s" for times in result["opening"]]
    lines += [
        "",
        f"The largest ratio of a page is {worst:.2f}. Opening a run (finding its errors and their "
        f"reasons) took {opening[0]} and {opening[1]}.",
    ]
    return "\n".join([*lines, "", machine.made_on(result["machine"]), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="Few samples, nothing is saved.")
    arguments = parser.parse_args()
    sizes, repeats = ((1_000, 3_000), 3) if arguments.small else ((1_000, 100_000), 9)
    packages = ("uqled", "numpy", "pillow", "starlette", "uvicorn")
    result = {"machine": machine.described(packages), "repeats": repeats}
    result |= measured(sizes, repeats)
    if arguments.small:
        print(table(result))
    else:
        machine.save("review", result, table(result))


if __name__ == "__main__":
    main()
