"""What tests in a browser ask of the review page, and of the run behind it."""

from __future__ import annotations

import csv
import time

from typer.testing import CliRunner

from uqled.cli import app
from uqled.detect.find import find_label_errors

PAGE_TIMEOUT = 15_000  # milliseconds that the page may take for anything


def is_alarming(message):
    expected = "409" in message.text or "net::ERR_" in message.text  # a conflict, a cut line
    return message.type == "error" and not expected


def wait_until(condition, what="it"):
    until = time.monotonic() + PAGE_TIMEOUT / 1000
    while not condition():
        assert time.monotonic() < until, f"{what} did not happen"
        time.sleep(0.02)


def until(page, expression):
    """Wait for JavaScript to be true. Playwright's own way needs `eval`, which the page forbids."""
    wait_until(lambda: page.evaluate(expression), expression)


def active(page):
    return int(page.locator(".card.active").get_attribute("data-index"))


def settle(page):
    """Wait until the page's estimates and its list follow all decisions."""
    until(page, "document.querySelectorAll('.card.waiting').length === 0")
    until(page, "document.querySelector('#estimates-box').ariaBusy === 'false'")


def next_index(page):
    """The sample behind the active one."""
    return page.evaluate(
        "Number(document.querySelector('.card.active').nextElementSibling.dataset.index)"
    )


def candidates(page, index):
    """The class numbers that the digits stand for, as the server lists them."""
    answer = page.evaluate(
        "fetch('api/samples?size=500&method=auto').then((answer) => answer.json())"
    )
    row = next(row for row in answer["samples"] if row["index"] == index)
    return [k for k, _ in row["classes"]]


def suggest(run, index):
    return int(find_label_errors(run.predictions(), method="all").best[index])


def changes_exported(run):
    """Index -> (action, label) of every change that an export of the decisions made."""
    out = run.path.parent / "cleaned.csv"
    words = ["export", str(run.path), "--to", "csv", "--unreviewed", "keep", "--out", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    with out.with_name("cleaned.csv.changes.csv").open(newline="") as file:
        return {int(row["index"]): (row["action"], row["to"]) for row in csv.DictReader(file)}


def changes_of(run, verdicts):
    """Index -> (action, label) as an export writes it; what was kept is no change."""
    names = run.predictions().labels.names
    return {
        index: (action, "" if label is None else names[label])
        for index, (action, label) in verdicts.items()
        if action != "keep"
    }
