"""The map of the review page with 10,000, 100,000 and 1,000,000 points, in Chromium.

    python -m review_page.sample_map            about four minutes on two cores
    python -m review_page.sample_map --small    5,000 and 20,000 points, to try it out; not saved

Measured: how long the map takes to compute and when the page first says how long that will be; how
long it takes to show it when it is kept with the run; the time between two frames while the map is
moved and zoomed; and memory. Chromium draws without a graphics card here: with one it is faster.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import machine
from uqled.data import Dataset
from uqled.review.serve import serve_review
from uqled.storage.run import Run

POINTS = (10_000, 100_000, 1_000_000)
SMALL_SIZES = (5_000, 20_000)
CLASSES = 10
SECONDS = 4  # of moving, and of zooming

# Moves or zooms a little in every frame, and returns the milliseconds between the frames.
COUNT_FRAMES = """async ([kind, seconds]) => {
  const canvas = document.querySelector("#map-canvas");
  const box = canvas.getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  const mouse = { pointerId: 1, pointerType: "mouse", bubbles: true };
  const send = (type, clientX, clientY) =>
    canvas.dispatchEvent(new PointerEvent(type, { ...mouse, clientX, clientY }));
  const wheel = { clientX: x, clientY: y, cancelable: true };
  const turnWheel = (deltaY) =>
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, ...wheel }));
  canvas.setPointerCapture = () => {};
  if (kind === "moving") {
    document.querySelector("#map-move-tool").click();
    send("pointerdown", x, y);
  }
  const frames = [];
  const began = performance.now();
  let last = began;
  for (let at = 0; performance.now() - began < 1000 * seconds; at += 1) {
    const [right, down] = [99 * Math.sin(at / 9), 99 * Math.cos(at / 7)];
    if (kind === "moving") send("pointermove", x + right, y + down);
    else turnWheel(at % 40 < 20 ? -30 : 30);
    const now = await new Promise((done) => requestAnimationFrame(done));
    frames.push(now - last);
    last = now;
  }
  if (kind === "moving") send("pointerup", x, y);
  return frames.slice(2);
}"""
READ_HEAP = "performance.memory ? performance.memory.usedJSHeapSize : null"


def make_run(folder: Path, N: int) -> Run:
    """A run of N rows whose features lie around the centre of their class."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, CLASSES, N)
    labels = np.where(rng.random(N) < 0.05, (truth + 1) % CLASSES, truth)
    probs = np.full((N, CLASSES), 0.1 / (CLASSES - 1), np.float32)
    probs[np.arange(N), truth] = 0.9
    centres = 2 * rng.normal(size=(5 * CLASSES, 32)).astype(np.float32)  # five islands of a class
    vectors = centres[truth + CLASSES * rng.integers(0, 5, N)]
    vectors += rng.standard_normal((N, 32), np.float32)
    data = Dataset.from_arrays(vectors[:, :2], labels)
    run = Run.begin(folder / "run", {"data": "made for a benchmark"})
    run.write_data(data.labels, data.ids.tolist(), None, np.zeros(N, np.int32))
    run.write_fold(0, probs, None)
    run.write_predictions([np.arange(N)], CLASSES)
    (run.path / "neighbours").mkdir()
    np.save(run.path / "neighbours" / "vectors.npy", vectors)
    return run


def wait_for_note(page: Any, text: str, seconds: float = 1200) -> float:
    """Seconds until the line above the map has this text in it."""
    began = time.perf_counter()
    while text not in page.locator("#map-note").inner_text():
        assert time.perf_counter() - began < seconds, page.locator("#map-note").inner_text()
        time.sleep(0.05)
    return time.perf_counter() - began


def open_map(browser: Any, address: str) -> tuple[Any, float]:
    """The page with its map, and when it was asked for."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script("localStorage.setItem('helped', 'yes')")
    page.goto(address)
    page.wait_for_selector(".card, #empty:not([hidden])", timeout=120_000)
    began = time.perf_counter()
    page.keyboard.press("m")
    return page, began


def summarize_frames(frames: list[float]) -> dict[str, float]:
    """In milliseconds."""
    median, slow = np.percentile(frames, [50, 95]).tolist()
    return {"n": len(frames), "median": median, "95 %": slow, "most": max(frames)}


def measure_map(browser: Any, N: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        run = make_run(Path(folder), N)
        with machine.PeakMemory() as memory, serve_review(run, port=0) as address:
            page, began = open_map(browser, address)
            wait_for_note(page, " left")
            first = time.perf_counter() - began
            wait_for_note(page, "side by side")
            compute_seconds = time.perf_counter() - began
            page.close()
        with serve_review(run, port=0) as address:
            page, began = open_map(browser, address)
            page.wait_for_selector("#map-legend li", timeout=120_000)
            show_seconds = time.perf_counter() - began
            frames = {
                kind: summarize_frames(page.evaluate(COUNT_FRAMES, [kind, SECONDS]))
                for kind in ("moving", "zooming")
            }
            heap = page.evaluate(READ_HEAP)
            page.close()
    return {
        "points": N,
        "first word": first,
        "computed": compute_seconds,
        "shown again": show_seconds,
        "frames": frames,
        "server bytes": memory.extra,
        "page bytes": heap,
    }


def format_table(result: dict[str, Any]) -> str:
    lines = [
        "# The map of the review page",
        "",
        "Seconds until the page says how long the map will take, until it is computed, and until a "
        "map that is kept with the run is shown; milliseconds between two frames while it is moved "
        "and zoomed, drawn by the processor (median, 95 % are shorter than); memory that the "
        "server needs for it beyond the run, and that of the page.",
        "",
        "| points | first word | computed | shown again | moving | zooming | server | page |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in result["maps"]:
        frames = [
            f"{row['frames'][kind]['median']:.0f} ({row['frames'][kind]['95 %']:.0f}) ms"
            for kind in ("moving", "zooming")
        ]
        heap = "" if row["page bytes"] is None else f"{row['page bytes'] / 1e6:,.0f} MB"
        cells = [f"{row['points']:,}", f"{row['first word']:.1f} s", f"{row['computed']:.0f} s"]
        cells += [f"{row['shown again']:.1f} s", *frames, f"{row['server bytes'] / 1e6:,.0f} MB"]
        lines.append(f"| {' | '.join([*cells, heap])} |")
    return "\n".join([*lines, "", machine.format_machine(result["machine"]), ""])


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="Few points; nothing is saved.")
    arguments = parser.parse_args()
    packages = ("uqled", "numpy", "openTSNE", "scikit-learn")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        maps = [measure_map(browser, N) for N in (SMALL_SIZES if arguments.small else POINTS)]
        browser.close()
    result = {"machine": machine.describe_machine(packages), "maps": maps}
    if arguments.small:
        print(format_table(result))
    else:
        machine.save("review_map", result, format_table(result))


if __name__ == "__main__":
    main()
