"""A browser, and the review page of a small run."""

from __future__ import annotations

import pytest

from review_pages import PAGE_TIMEOUT, is_alarming
from review_runs import image_run
from uqled.detect.find import find_label_errors
from uqled.review.serve import serve_review


@pytest.fixture
def run(tmp_path):
    return image_run(tmp_path)


@pytest.fixture
def address(run):
    with serve_review(run, port=0, reviewer="ana") as server:
        yield server


@pytest.fixture
def open_page(browser):
    """Open an address as a new person would; fails if the page ever has an error."""
    contexts, errors = [], []

    def open_page(address, *, is_helped=True, routes=None, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(PAGE_TIMEOUT)
        if is_helped:
            context.add_init_script("localStorage.setItem('helped', 'yes')")
        for pattern, handler in (routes or {}).items():
            context.route(pattern, handler)  # before the page: later, some requests slip by
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("dialog", lambda dialog: errors.append(dialog.message))
        page.on(
            "console",
            lambda message: errors.append(message.text) if is_alarming(message) else None,
        )
        page.goto(address)
        page.wait_for_selector(".card, #empty:not([hidden])")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def ranking(run):
    return find_label_errors(run.predictions(), method="all").ranked.tolist()
