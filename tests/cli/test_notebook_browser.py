"""`errors.review()` in a real JupyterLab and browser: decisions by mouse, through the kernel.

Needs JupyterLab, which no extra of ours brings: pip install jupyterlab ipykernel.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from browsers import needs_chromium
from uqled.review.decisions import read_decisions
from uqled.storage.run import Run

for _name in ("anywidget", "jupyterlab", "ipykernel"):
    pytest.importorskip(_name)

pytestmark = [pytest.mark.slow, needs_chromium]
CODE = """
import numpy as np, pandas as pd, uqled
rng = np.random.default_rng(0)
true = np.arange(120) % 2
frame = pd.DataFrame({"a": 5.0 * true + rng.normal(size=120), "b": rng.normal(size=120)})
wrong = np.arange(120) < 6
frame["label"] = np.array(["no", "<img src=x onerror=alert(1)>"])[np.where(wrong, 1 - true, true)]
errors = uqled.find(frame, label="label", model="logistic", out="run", progress=False)
errors.review(reviewer="ann")
"""


@pytest.fixture
def lab(tmp_path):
    """The address of a JupyterLab that shows a notebook with this code."""
    cell = {"cell_type": "code", "source": CODE, "metadata": {}, "outputs": [], "id": "one"}
    cell["execution_count"] = None
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel}
    notebook = {"cells": [cell], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "review.ipynb").write_text(json.dumps(notebook))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}/lab/tree/review.ipynb?token=secret"
    options = ["--no-browser", "--allow-root", f"--port={port}", "--IdentityProvider.token=secret"]
    command = [sys.executable, "-m", "jupyterlab", *options, f"--ServerApp.root_dir={tmp_path}"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    ) as process:
        try:
            for _ in range(300):
                try:
                    urllib.request.urlopen(address, timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.2)
            yield address
        finally:
            process.terminate()


def test_decisions_by_mouse(lab, tmp_path, browser):
    page = browser.new_page()
    page.set_default_timeout(120_000)
    dialogs = []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.accept()))
    page.goto(lab)
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    # A cell that is run while there is no kernel opens a dialog, which then covers the page.
    page.locator(".jp-KernelName", has_text="Python 3").wait_for()
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]")
    prompt = page.locator(".jp-Notebook .jp-CodeCell .jp-InputPrompt").first
    for _ in range(60):  # until the kernel is there, keys do nothing
        page.click(".jp-Notebook .jp-CodeCell .cm-content")
        page.keyboard.press("Control+Enter")
        page.wait_for_timeout(1_000)
        if prompt.inner_text() != "[ ]:":
            break
    page.wait_for_selector(".uqled-review article")
    assert page.locator(".uqled-review article").count() == 6
    first = page.locator(".uqled-review article").first
    first.get_by_role("button", name="relabel").click()
    page.wait_for_selector(".uqled-review article.relabel")
    page.locator(".uqled-review article").nth(1).get_by_role("button", name="drop").click()
    page.wait_for_selector(".uqled-review article.drop")
    assert "2 decided" in page.locator(".uqled-review header").inner_text()
    assert page.locator(".uqled-review img").count() == 0  # a class stays a name
    assert not dialogs
    decisions = read_decisions(Run.open(tmp_path / "run").predictions())
    assert sorted(one.action for one in decisions.values()) == ["drop", "relabel"]
    assert {one.reviewer for one in decisions.values()} == {"ann"}
