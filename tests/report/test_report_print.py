"""The report on paper."""

from __future__ import annotations

import re

import numpy as np
import pytest

from browsers import needs_chromium
from review_runs import finish, image_run
from uqled.data import Dataset
from uqled.report.page import report_run

pytestmark = needs_chromium


def make_table_run(folder):
    import pandas as pd

    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 400)
    columns = {f"column {k}": codes * (k % 3) + rng.normal(size=400).round(3) for k in range(9)}
    columns |= {f"word {k}": np.array(["red", "green", "blue"])[codes] for k in range(4)}
    data = Dataset.from_arrays(pd.DataFrame(columns), np.array(["a", "b", "c"])[codes])
    return finish(folder / "run", data), data


def count_pages(browser, path):
    page = browser.new_page()
    page.goto(path.as_uri())
    content = page.pdf(format="A4", prefer_css_page_size=True)
    page.close()
    return len(re.findall(rb"/Type\s*/Page[^s]", content))


@pytest.mark.parametrize("kind", ["images", "twenty classes", "table"])
def test_pages_are_filled(browser, tmp_path, kind):
    if kind != "table":
        names = [f"class {k}" for k in range(20 if kind == "twenty classes" else 10)]
        run, data = image_run(tmp_path, N=400, classes=names), None
    else:
        run, data = make_table_run(tmp_path)
    report = report_run(run.path, tmp_path / "report.html", data=data, top=60)
    # Half-empty pages, and statistics below instead of beside each other, took 13 and 16; a page
    # for the table of classes alone, 9.
    most = {"images": 8, "twenty classes": 8, "table": 11}[kind]
    assert count_pages(browser, report) <= most
