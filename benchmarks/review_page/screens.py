"""Every screen of the review page with 100,000 flags of 1,000 classes, beside 1,000 of 10.

    python -m review_page.screens            about five minutes on two cores
    python -m review_page.screens --small    half a minute, to try it out; nothing is saved

Both runs are served at the same time and take turns, so that whatever else the machine does falls
on both. A screen is timed in Chromium, from the click until everything that it shows is there, its
pictures included; none of them was asked for before. Requests are timed without a browser: a
decision until its answer, also while the estimate is brought up to date; and that estimate.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

import machine
from uqled.data import Dataset
from uqled.progress import run_beside
from uqled.report.page import report_run
from uqled.review.serve import serve_review
from uqled.storage.run import Run

CLASSES = {1_000: 10, 3_000: 30, 100_000: 1_000}  # by number of flagged samples
SIDE = 64  # pixels of a picture
TOP = 60  # suspects in a report: the default of `uqled report`
DECISIONS = 10  # in each turn
Times = dict[str, tuple[list[float], list[float]]]

#: Screen -> (what is clicked, what is new on the page then). A screen follows the one before it.
SCREENS = {
    "grid: the next page": ("#next", "#list .card"),
    "filter: one pair of classes": (".pairs button", "#list .card"),
    "filter: show all": ("#clear", "#list .card"),
    "filter: which class?": ("[name=given]", "#picker-list [role=option]"),
    "": ("#picker-cancel", "body"),
    "one by one, with its evidence": ("#as-single", "#single .evidence"),
    "one by one: the next": ("#next", "#single .evidence"),
    "groups": ("#as-groups", "#groups .tile"),
    "map": ("#as-map", "#map-legend li"),
    "classes": ("#as-classes", "#classes tbody tr"),
    "one class": ("#classes tbody button", "#class-merge"),
    "back to the grid": ("#as-grid", "#list .card"),
}
# Everything on the page is marked as old, then something is clicked. It is done when there is
# something new of the expected kind, all pictures on the screen are complete, and a frame is drawn.
TIME_SCREEN = """async ([button, selector]) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const isSeen = (item) => {
    const { top, bottom, width } = item.getBoundingClientRect();
    return width > 0 && bottom > 0 && top < innerHeight;
  };
  for (const item of document.querySelectorAll("main *, dialog *")) item.dataset.old = "";
  const began = performance.now();
  document.querySelector(button).click();
  const isDone = () =>
    document.querySelector(`${selector}:not([data-old])`) &&
    [...document.images].every((image) => !isSeen(image) || image.complete);
  do await frame();
  while (!isDone() && performance.now() - began < 60000);
  if (!isDone()) throw new Error(`${button} does not show ${selector}`);
  await frame();
  return (performance.now() - began) / 1000;
}"""


def make_run(folder: Path, flagged: int) -> tuple[Run, Dataset]:
    """A run in which `flagged` of twice as many labels are wrong, and the model sure of it."""
    rng = np.random.default_rng(0)
    N, K = 2 * flagged, CLASSES[flagged]
    truth = rng.integers(0, K, N)
    is_wrong = rng.permutation(N) < flagged
    labels = np.where(is_wrong, (truth + 1) % K, truth)
    probs = np.full((N, K), 0.1 / (K - 1), np.float32)
    probs[np.arange(N), truth] = 0.9
    picture = rng.integers(0, 256, (SIDE, SIDE, 3), np.uint8)
    images = np.broadcast_to(picture, (N, SIDE, SIDE, 3))  # the same one costs as much each time
    data = Dataset.from_arrays(images, labels, classes=[f"class {k}" for k in range(K)])
    run = Run.begin(folder / "run", {"data": "made for a benchmark"})
    run.write_data(data.labels, data.ids.tolist(), None, np.zeros(N, np.int32))
    run.write_fold(0, probs, None)
    run.write_predictions([np.arange(N)], K)
    neighbours = run.path / "neighbours"
    neighbours.mkdir()
    vectors = rng.normal(size=(K, 32))[truth] + 0.5 * rng.normal(size=(N, 32))
    np.save(neighbours / "vectors.npy", vectors.astype(np.float32))
    for side in ("given", "suggested"):
        np.save(neighbours / f"{side}.npy", rng.integers(0, N, (N, 3)))
    np.save(neighbours / "duplicates.npy", np.zeros((0, 2), np.int64))
    return run, data


class PageClient:
    """One connection that stays open, as a browser's does."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.address, self.path = address, parts.path
        self.origin = f"http://{parts.netloc}"
        self.connection = http.client.HTTPConnection(parts.netloc)

    def get(self, path: str) -> bytes:
        self.connection.request("GET", self.path + path)
        return self._read_answer()

    def decide(self, sample: int) -> None:
        body = {"items": [[sample, "drop", None]], "seen": {}, "reviewer": "bench", "tab": ""}
        headers = {"Content-Type": "application/json", "Origin": self.origin}
        self.connection.request("POST", f"{self.path}api/decide", json.dumps(body), headers)
        self._read_answer()

    def wait_for_map(self) -> None:
        while not json.loads(self.get("api/map"))["ready"]:
            time.sleep(0.5)

    def _read_answer(self) -> bytes:
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return body

    @contextmanager
    def keep_estimating(self) -> Iterator[None]:
        """Another connection asks for the estimate all the time while the block runs."""

        def ask(is_over: threading.Event) -> None:
            other = PageClient(self.address)
            while not is_over.is_set():
                other.get("api/estimates")
            other.connection.close()

        with run_beside(ask):
            yield


def time_call(call: Callable[[], Any]) -> float:
    return machine.time_repeats(call, 1)[0]


def time_opening(run: Run, data: Dataset) -> float:
    """Seconds from the command until the first list is there."""
    began = time.perf_counter()
    with serve_review(run, data=data, port=0) as address:
        client = PageClient(address)
        client.get("api/start")
        seconds = time.perf_counter() - began
        client.connection.close()
    return seconds


def time_screens(
    browser: Any, address: str, turn: int, record: Callable[[str, float], None]
) -> None:
    """A new page, and every screen of it after the other."""
    page = browser.new_page()
    page.set_default_timeout(60_000)
    page.add_init_script("localStorage.setItem('helped', 'yes')")
    began = time.perf_counter()
    page.goto(f"{address}#from={100 * turn}")
    page.wait_for_selector(".card")
    record("opening the page", time.perf_counter() - began)
    page.wait_for_selector("#estimates tr", state="attached")
    for name, (button, selector) in SCREENS.items():
        seconds = page.evaluate(TIME_SCREEN, [button, selector]) if name else page.click(button)
        if name:
            record(name, seconds)
    page.close()


def time_requests(clients: list[PageClient], turn: int, times: Times) -> None:
    """Decisions and estimates of both, in turns."""
    numbered_clients = list(enumerate(clients))[:: 1 if turn % 2 else -1]
    first = 2 * DECISIONS * turn
    for sample in range(first, first + DECISIONS):
        for which, client in numbered_clients:
            seconds = time_call(partial(client.decide, sample))
            times["one decision, until its answer"][which].append(seconds)
            seconds = time_call(partial(client.get, "api/estimates"))
            times["the estimate, after a decision"][which].append(seconds)
    for which, client in numbered_clients:
        with client.keep_estimating():
            for sample in range(first + DECISIONS, first + 2 * DECISIONS):
                seconds = time_call(partial(client.decide, sample))
                times["a decision while the estimate is updated"][which].append(seconds)


def time_reports(browser: Any, runs: list[tuple[Run, Dataset]], times: Times) -> None:
    """Writing the report, and opening the file."""
    for which, (run, data) in enumerate(runs):
        write = partial(report_run, run.path, data=data, top=TOP)
        times["writing the report"][which].append(time_call(write))
        page = browser.new_page()
        address = (run.path / "report.html").as_uri()
        times["opening the report"][which].append(time_call(partial(page.goto, address)))
        page.close()


def measure_review(sizes: tuple[int, int], repeats: int) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    names = ["opening the page", *filter(None, SCREENS), "one decision, until its answer"]
    names += ["a decision while the estimate is updated", "the estimate, after a decision"]
    names += ["opening a run", "writing the report", "opening the report"]
    times: Times = {name: ([], []) for name in names}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        runs = []
        for n_flagged in sizes:
            (place / str(n_flagged)).mkdir()
            runs.append(make_run(place / str(n_flagged), n_flagged))
        for turn in range(4):
            for which, run in enumerate(runs):
                seconds = time_opening(*run)
                if turn:  # compiled and read once before
                    times["opening a run"][which].append(seconds)
        clients = [
            PageClient(stack.enter_context(serve_review(run, data=data, port=0)))
            for run, data in runs
        ]
        for client in clients:
            client.wait_for_map()
        browser = stack.enter_context(sync_playwright()).chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for turn in range(repeats + 1):
            for which, client in list(enumerate(clients))[:: 1 if turn % 2 else -1]:

                def record(name: str, seconds: float, *, turn: int = turn, at: int = which) -> None:
                    if turn:  # everything was shown once before
                        times[name][at].append(seconds)

                client.connection.close()  # it is opened anew: the server does not keep idle ones
                time_screens(browser, client.address, turn, record)
            time_requests(clients, turn, times)
        for _ in range(3):
            time_reports(browser, runs, times)
        browser.close()
    summaries = {
        name: [machine.summarize_times(one) for one in pair] for name, pair in times.items()
    }
    return {"sizes": list(sizes), "times": summaries}


def format_table(result: dict[str, Any]) -> str:
    small_head, large_head = (
        f"{size:,} flags, {CLASSES[size]:,} classes" for size in result["sizes"]
    )
    lines = [
        "# The review page under load",
        "",
        f"Seconds: median (least to most). Screens are timed in Chromium from the click until "
        f"everything on the screen is there, {SIDE} x {SIDE} pictures included; requests without a "
        f"browser. Of each run half the labels are flagged. Goal: a screen takes as long with many "
        f"flags and classes as with few.",
        "",
        f"| | {small_head} | {large_head} | ratio |",
        "|---|---|---|---|",
    ]
    for name, pair in result["times"].items():
        cells = [f"{p['median']:.3f} ({p['least']:.3f} to {p['most']:.3f})" for p in pair]
        ratio = pair[1]["median"] / pair[0]["median"]
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio:.2f} |")
    return "\n".join([*lines, "", machine.format_machine(result["machine"]), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="Few samples; nothing is saved.")
    parser.add_argument("--repeats", type=int, default=9, help="Turns of each. Default: 9.")
    arguments = parser.parse_args()
    sizes = (1_000, 3_000) if arguments.small else (1_000, 100_000)
    repeats = 2 if arguments.small else arguments.repeats
    packages = ("uqled", "numpy", "pillow", "starlette", "uvicorn")
    result = {"machine": machine.describe_machine(packages), "repeats": repeats}
    result |= measure_review(sizes, repeats)
    if arguments.small:
        print(format_table(result))
    else:
        machine.save("review", result, format_table(result))


if __name__ == "__main__":
    main()
