"""Decisions in a browser: with the keyboard, with the mouse, in two tabs."""

from __future__ import annotations

import pytest

from browsers import needs_chromium
from review_pages import (
    active,
    candidates,
    changes_exported,
    changes_of,
    next_index,
    settle,
    suggest,
    until,
    wait_until,
)
from review_runs import list_decisions
from uqled.detect.find import find_label_errors
from uqled.review.decisions import Decisions

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")
pytestmark = needs_chromium


def test_keyboard_only(open_page, address, run, ranking):
    page = open_page(address, is_helped=False)
    press = page.keyboard.press
    page.wait_for_selector("#keys[open]")  # a stranger is told how it works
    press("Escape")
    assert active(page) == ranking[0]
    press("q")
    press("w")
    press("e")
    until(page, "document.querySelectorAll('.card.waiting').length === 0")
    expected = {
        ranking[0]: ("keep", None),
        ranking[1]: ("relabel", suggest(run, ranking[1])),
        ranking[2]: ("drop", None),
    }
    assert list_decisions(run) == expected
    settle(page)  # the rest of the list follows these decisions
    third, fourth = active(page), next_index(page)
    classes = candidates(page, third)
    label = int(run.predictions().labels.codes[third])
    place = next(at for at, k in enumerate(classes) if k not in (label, suggest(run, third)))
    press(str(place + 1))  # one of the sample's own candidates
    expected[third] = ("relabel", classes[place])
    wait_until(lambda: list_decisions(run) == expected)

    press("c")  # type-ahead
    page.keyboard.type("shi")
    press("Enter")
    label = int(run.predictions().labels.codes[fourth])
    expected[fourth] = ("keep", None) if label == 3 else ("relabel", 3)
    wait_until(lambda: list_decisions(run) == expected)

    press("ArrowLeft")
    press("n")  # undecided again
    wait_until(lambda: fourth not in list_decisions(run))
    press("Control+z")
    wait_until(lambda: list_decisions(run) == expected)
    wait_until(lambda: active(page) == fourth)

    page.reload()  # in the middle: the place and the decisions are there
    page.wait_for_selector(".card.active")
    wait_until(lambda: active(page) == fourth)
    assert page.locator(".card.keep, .card.relabel, .card.drop").count() == 5
    for _ in range(6):  # and so is what can be taken back
        press("Control+z")
    wait_until(lambda: list_decisions(run) == {})
    press("Control+z")
    until(page, "document.querySelector('#toast').textContent.includes('Nothing to take back')")

    page.wait_for_timeout(500)  # a page with a request under way asks before it is left
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(".card.active")
    assert active(page) == ranking[0]
    press("Shift+ArrowRight")
    press("Shift+ArrowRight")
    assert page.locator(".card[aria-selected=true]").count() == 3
    press("q")
    wait_until(lambda: list_decisions(run) == dict.fromkeys(ranking[:3], ("keep", None)))
    press("Control+z")
    wait_until(lambda: list_decisions(run) == {})
    settle(page)

    press("Home")
    press("Enter")  # one by one
    page.wait_for_selector("#single:not([hidden]) .about h2")
    assert "Labelled" in page.locator("#single h2").inner_text()
    press("e")
    wait_until(lambda: list_decisions(run) == {ranking[0]: ("drop", None)})
    until(page, "document.querySelector('#where').textContent.startsWith('2 of')")
    press("ArrowLeft")
    page.wait_for_selector("#single .state.drop")
    press("Escape")
    page.wait_for_selector("#list:not([hidden])")
    press("?")
    page.wait_for_selector("#keys[open]")
    press("Escape")
    until(page, "document.activeElement.closest('.card') !== null")
    # The browser gives the focus back at once, and tells the page that the help closed a little
    # later, which then puts it on the sample: a person is never as quick as to come in between.
    page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")
    press("Tab")  # focus leaves the list
    until(page, "document.activeElement.closest('.card') === null")
    settle(page)
    press("ArrowRight")
    second, third = active(page), next_index(page)
    press("w")
    press("q")
    decisions = {
        ranking[0]: ("drop", None),
        second: ("relabel", suggest(run, second)),
        third: ("keep", None),
    }
    wait_until(lambda: list_decisions(run) == decisions)
    assert changes_exported(run) == changes_of(run, decisions)


def test_mouse_only(open_page, address, run, ranking):
    page = open_page(address)
    button = {
        name: page.locator(f"#actions [data-action={name}]")
        for name in ("keep", "accept", "other", "drop", "undecided")
    }
    card = page.locator(".card")

    def index_of(place):
        settle(page)
        return int(card.nth(place).get_attribute("data-index"))

    card.nth(0).click()
    button["keep"].click()
    button["drop"].click()  # the next one
    expected = {ranking[0]: ("keep", None), ranking[1]: ("drop", None)}
    accepted_sample = index_of(2)
    card.nth(2).click()
    button["accept"].click()
    expected[accepted_sample] = ("relabel", suggest(run, accepted_sample))
    other = index_of(3)
    card.nth(3).click()
    button["other"].click()
    page.locator("#picker-list [role=option]", has_text="frog").click()
    label = int(run.predictions().labels.codes[other])
    expected[other] = ("keep", None) if label == 2 else ("relabel", 2)
    wait_until(lambda: list_decisions(run) == expected)
    until(page, "document.querySelector('#counts').textContent.includes('4 of')")
    assert page.locator("#progress").get_attribute("aria-valuenow") == "4"

    card.nth(1).click()
    button["undecided"].click()
    del expected[ranking[1]]
    wait_until(lambda: list_decisions(run) == expected)
    page.locator("#undo").click()
    expected[ranking[1]] = ("drop", None)
    wait_until(lambda: list_decisions(run) == expected)

    settle(page)
    samples = [index_of(place) for place in (7, 8, 9)]
    for place in (5, 7):  # several at once
        card.nth(place).locator(".tick").click()
    card.nth(9).click(modifiers=["Shift"])
    assert page.locator("#chosen").inner_text() == "3 selected"
    button["drop"].click()
    expected |= dict.fromkeys(samples, ("drop", None))
    wait_until(lambda: list_decisions(run) == expected)
    settle(page)

    # While the page is open: what was decided, and nothing else.
    assert changes_exported(run) == changes_of(run, expected)

    # A pair in the heat map, and every filter.
    pair = page.locator(".pairs button").first.get_attribute("aria-label")
    page.locator(".pairs button").first.click()
    page.wait_for_selector(".pairs button[aria-pressed=true]")
    number = int(pair.split(": ")[1].split()[0])
    until(page, f"document.querySelector('#where').textContent.endsWith('of {number}')")
    assert card.count() == number
    page.locator("#clear").click()
    until(page, "document.querySelectorAll('.card').length > 10")
    page.locator("[name=given]").click()  # a class, by its name
    page.locator("#picker-text").fill("do")
    page.locator("#picker-list [role=option]").first.click()
    until(page, "document.querySelector('[name=given]').textContent === 'dog'")
    assert set(page.locator(".labels .given .name").all_inner_texts()) == {"dog"}
    page.locator("#clear").click()
    page.select_option("[name=state]", "drop")
    until(page, "document.querySelectorAll('.card').length === 4")
    page.select_option("[name=state]", "undecided")
    until(page, "document.querySelectorAll('.card.drop').length === 0")
    page.select_option("[name=reason]", "wrong label")
    page.select_option("[name=method]", "argmax")
    flagged = find_label_errors(run.predictions(), method="argmax").n_flagged
    until(page, f"document.querySelector('#counts').textContent.includes('{flagged}')")
    page.locator("#clear").click()
    card.nth(0).dblclick()
    page.wait_for_selector("#single:not([hidden])")
    page.locator("#next").click()
    page.locator("#single .bars button").nth(0).click()
    page.locator("#as-grid").click()
    page.locator("#help").click()
    page.locator("#keys-close").click()
    assert not page.locator("#keys").is_visible()


def test_two_tabs_do_not_overwrite_each_other(open_page, address, run, ranking):
    unseen = {"**/api/changes*": lambda route: route.abort()}  # they do not see each other
    one, two = open_page(address, routes=unseen), open_page(address, routes=unseen)
    two.fill("#reviewer", "bo")
    two.locator(".card").nth(0).click()
    one.keyboard.press("q")
    wait_until(lambda: list_decisions(run) == {ranking[0]: ("keep", None)})
    two.keyboard.press("e")
    two.wait_for_selector("#conflict[open]")
    text = two.locator("#conflict-rows").inner_text()
    assert "kept by ana" in text
    assert "dropped" in text
    assert list_decisions(run) == {ranking[0]: ("keep", None)}
    two.keyboard.press("Enter")  # leave theirs
    two.wait_for_selector(f".card.keep[data-index='{ranking[0]}']")
    assert list_decisions(run) == {ranking[0]: ("keep", None)}

    sample = int(two.locator(".card").nth(1).get_attribute("data-index"))
    one.locator(f".card[data-index='{sample}']").click()
    one.keyboard.press("q")
    wait_until(lambda: sample in list_decisions(run))
    two.locator(f".card[data-index='{sample}']").click()
    two.keyboard.press("e")
    two.locator("#mine").click()
    wait_until(lambda: list_decisions(run)[sample] == ("drop", None))
    with Decisions(run.path / "decisions.sqlite") as decisions:
        history = [(c.reviewer, c.action) for c in decisions.history() if c.index == sample]
    assert history == [("ana", "keep"), ("bo", "drop")]


def test_deciding_twice_before_the_first_is_saved_is_no_conflict(open_page, address, run, ranking):
    requests = []

    def hold(route):
        if requests:
            route.continue_()
        else:
            requests.append(route)

    page = open_page(address, routes={"**/api/decide": hold})
    with page.expect_request("**/api/decide"):
        page.keyboard.press("q")
    page.wait_for_selector(".card.waiting")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("e")
    assert "saving" in page.locator(".card .state").first.inner_text()
    assert list_decisions(run) == {}
    requests[0].continue_()
    page.wait_for_selector(f".card.drop:not(.waiting)[data-index='{ranking[0]}']")
    assert list_decisions(run) == {ranking[0]: ("drop", None)}
    assert not page.locator("#conflict").is_visible()


def test_what_another_decides_appears(open_page, address, run, ranking):
    page = open_page(address)
    with Decisions.of(run.predictions()) as decisions:
        decisions.decide([(ranking[2], "drop", None)], reviewer="bo")
    page.wait_for_selector(f".card.drop[data-index='{ranking[2]}']")
    assert "1 of" in page.locator("#counts").inner_text()


def test_a_list_that_cannot_be_loaded_is_told(open_page, address):
    page = open_page(address)
    page.context.set_offline(True)
    page.keyboard.press("g")
    page.wait_for_selector("#toast:not([hidden])")
    assert page.locator("#toast").inner_text() == "Not loaded: the server does not answer"


def test_an_unreachable_server_is_told_and_nothing_is_lost(open_page, address, run, ranking):
    page = open_page(address)
    page.context.set_offline(True)
    page.keyboard.press("q")
    page.keyboard.press("e")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "2 decisions are not saved yet" in page.locator("#trouble").inner_text()
    assert list_decisions(run) == {}
    page.context.set_offline(False)
    page.locator("#trouble button").click()
    wait_until(
        lambda: list_decisions(run) == {ranking[0]: ("keep", None), ranking[1]: ("drop", None)}
    )
    page.wait_for_selector("#trouble", state="hidden")
