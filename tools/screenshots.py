"""Take the README's pictures: the report and the review page of `uqled demo`, in a real browser.

Usage: python tools/screenshots.py [--browser /usr/bin/chromium]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from uqled.demo import run_demo
from uqled.review.serve import serve_review

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", default="/usr/bin/chromium", help="Path of Chromium.")
    arguments = parser.parse_args()
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run = Path(folder, "digits")
        run_demo(run)
        browser = playwright.chromium.launch(
            executable_path=arguments.browser, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto((run / "report.html").as_uri())
        page.screenshot(path=IMAGES / "report.png")
        with serve_review(run, reviewer="you") as address:
            page.goto(address)
            page.wait_for_timeout(3_000)  # it goes on asking for others' decisions
            page.screenshot(path=IMAGES / "review.png")
        browser.close()


if __name__ == "__main__":
    main()
