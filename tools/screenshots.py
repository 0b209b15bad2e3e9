"""Take the pictures of the README and the tutorials, in a real browser.

Usage: PYTHONPATH=src python tools/screenshots.py [--browser /usr/bin/chromium] [--only tutorials]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from uqled.demo import run_demo
from uqled.review.serve import serve_review

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
TUTORIAL_IMAGES = ROOT / "docs" / "tutorials" / "images"
WIDGET = ROOT / "src" / "uqled" / "review" / "notebook" / "static"
#: The widget of a notebook with the kernel's first answer, in place of a kernel.
WIDGET_PAGE = """<!doctype html><meta charset="utf-8"><style>{css}</style><body>
<script type="module">
{script}
let receive;
const page = {page};
const model = {{ on: (_, f) => {{ receive = f; }}, off() {{}}, send: () => receive(page) }};
render({{ model, el: document.body }});
</script>"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browser", default="/usr/bin/chromium", help="Path of Chromium.")
    parser.add_argument("--only", choices=["readme", "tutorials"], help="Default: both.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=arguments.browser, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        if arguments.only != "tutorials":
            take_readme(page, Path(folder))
        if arguments.only != "readme":
            take_tutorials(page, Path(folder))
        browser.close()


def take_readme(page: Page, folder: Path) -> None:
    run = folder / "digits"
    run_demo(run)
    IMAGES.mkdir(exist_ok=True)
    take_report(page, run / "report.html", IMAGES / "report.png")
    take_review(page, run, IMAGES / "review.png")


def take_tutorials(page: Page, folder: Path) -> None:
    """Run the pages, and show what they made."""
    sys.path.insert(0, str(ROOT / "tests" / "shared"))
    from tutorial_pages import list_tutorials, run_page

    TUTORIAL_IMAGES.mkdir(exist_ok=True)
    names: dict[str, dict[str, Any]] = {}
    for path in list_tutorials():
        (folder / path.stem).mkdir()
        names[path.stem] = run_page(path, folder / path.stem)[1]
    photos, texts = folder / "photos" / "runs" / "photos", folder / "texts" / "runs" / "requests"
    take_report(page, photos / "report.html", TUTORIAL_IMAGES / "photos-report.png")
    take_review(page, photos, TUTORIAL_IMAGES / "photos-review.png")
    take_review(page, texts, TUTORIAL_IMAGES / "texts.png")
    report = folder / "from-cleanlab" / "report.html"
    take_report(page, report, TUTORIAL_IMAGES / "from-cleanlab.png")
    for name, errors in (("predictions", "errors"), ("cluster", "in_memory")):
        names[name][errors].plot().savefig(TUTORIAL_IMAGES / f"{name}.png", dpi=80)
    errors = names["dataframe"]["errors"]
    show(page, errors._repr_html_(), TUTORIAL_IMAGES / "dataframe.png")
    show(page, make_widget_page(errors, folder), TUTORIAL_IMAGES / "notebook-review.png")


def take_report(page: Page, report: Path, picture: Path) -> None:
    page.goto(report.as_uri())
    page.screenshot(path=picture)


def take_review(page: Page, run: Path, picture: Path) -> None:
    with serve_review(run, reviewer="you") as address:
        page.goto(address)
        page.wait_for_timeout(3_000)  # it goes on asking for others' decisions
        page.keyboard.press("Escape")  # the help, which opens on the first visit
        page.wait_for_timeout(500)
        page.screenshot(path=picture)


def show(page: Page, html: str, picture: Path) -> None:
    page.goto("about:blank")  # away from the rules of the page before, which forbid scripts
    page.set_content(html)
    page.wait_for_timeout(500)
    page.locator("body > div").first.screenshot(path=picture)


def make_widget_page(errors: Any, folder: Path) -> str:
    widget = errors.review(folder / "decisions.sqlite", reviewer="you")
    first = widget._messages.answer({"kind": "page", "start": 0})["samples"][0]
    message = {"kind": "decide", "index": first["index"], "action": "relabel"}
    content = widget._messages.answer(message | {"label": first["suggested"]})
    script = (WIDGET / "widget.js").read_text().replace("export default { render };", "")
    return WIDGET_PAGE.format(
        css=(WIDGET / "widget.css").read_text(),
        script=script,
        page=json.dumps(content).replace("<", "\\u003c"),
    )


if __name__ == "__main__":
    main()
