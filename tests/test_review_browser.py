"""A person's way through the review page, in a real browser: keyboard only, mouse only."""

from __future__ import annotations

import csv
import shutil
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from review_runs import HOSTILE_CLASS, HOSTILE_FILE, hostile_run, image_run, memory_run, text_data
from uqled.cli import app
from uqled.detect.find import find_label_errors
from uqled.review.decisions import Decisions
from uqled.review.serve import serving

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

SLOW = 15_000  # milliseconds that the page may take for anything


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def run(tmp_path):
    return image_run(tmp_path)


@pytest.fixture
def address(run):
    with serving(run, port=0, reviewer="ana") as found:
        yield found


@pytest.fixture
def opened(browser):
    """Open an address as a new person would; fails if the page ever has an error."""
    contexts, errors = [], []

    def opened(address, *, helped=True, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        context.set_default_timeout(SLOW)
        if helped:
            context.add_init_script("localStorage.setItem('helped', 'yes')")
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

    yield opened
    for context in contexts:
        context.close()
    assert errors == []


def is_alarming(message):
    expected = "409" in message.text or "net::ERR_" in message.text  # a conflict, a cut line
    return message.type == "error" and not expected


@pytest.fixture
def ranked(run):
    return find_label_errors(run.predictions(), method="all").ranked.tolist()


def stored(run):
    with Decisions(run.path / "decisions.sqlite") as decisions:
        return {i: (one.action, one.label) for i, one in decisions.current().items()}


def wait_until(condition, what="it"):
    until = time.monotonic() + SLOW / 1000
    while not condition():
        assert time.monotonic() < until, f"{what} did not happen"
        time.sleep(0.02)


def until(page, expression):
    """Wait for JavaScript to be true. Playwright's own way needs `eval`, which the page forbids."""
    wait_until(lambda: page.evaluate(expression), expression)


def active(page):
    return int(page.locator(".card.active").get_attribute("data-index"))


def suggested(run, index):
    return int(find_label_errors(run.predictions(), method="all").best[index])


def changes_exported(run):
    """Index -> (action, label) of every change that an export of the decisions made."""
    out = run.path.parent / "cleaned.csv"
    words = ["export", str(run.path), "--to", "csv", "--unreviewed", "keep", "--out", str(out)]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    with out.with_name("cleaned.csv.changes.csv").open(newline="") as file:
        return {int(row["index"]): (row["action"], row["to"]) for row in csv.DictReader(file)}


def changes_of(run, decided):
    """Index -> (action, label) as an export writes it; what was kept is no change."""
    names = run.predictions().labels.names
    return {
        index: (action, "" if label is None else names[label])
        for index, (action, label) in decided.items()
        if action != "keep"
    }


def test_keyboard_only(opened, address, run, ranked):
    page = opened(address, helped=False)
    press = page.keyboard.press
    page.wait_for_selector("#keys[open]")  # a stranger is told how it works
    press("Escape")
    assert active(page) == ranked[0]
    press("q")
    press("w")
    press("e")
    until(page, "document.querySelectorAll('.card.waiting').length === 0")
    expected = {
        ranked[0]: ("keep", None),
        ranked[1]: ("relabel", suggested(run, ranked[1])),
        ranked[2]: ("drop", None),
    }
    assert stored(run) == expected
    assert active(page) == ranked[3]

    given = int(run.predictions().labels.codes[ranked[3]])
    other = next(k for k in range(4) if k not in (given, suggested(run, ranked[3])))
    press(str(other + 1))  # a digit
    expected[ranked[3]] = ("relabel", other)
    wait_until(lambda: stored(run) == expected)

    press("c")  # type-ahead
    page.keyboard.type("shi")
    press("Enter")
    given = int(run.predictions().labels.codes[ranked[4]])
    expected[ranked[4]] = ("keep", None) if given == 3 else ("relabel", 3)
    wait_until(lambda: stored(run) == expected)

    press("ArrowLeft")
    press("n")  # undecided again
    wait_until(lambda: ranked[4] not in stored(run))
    press("Control+z")
    wait_until(lambda: stored(run) == expected)
    wait_until(lambda: active(page) == ranked[4])

    page.reload()  # in the middle: the place and the decisions are there
    page.wait_for_selector(".card.active")
    wait_until(lambda: active(page) == ranked[4])
    assert page.locator(".card.keep, .card.relabel, .card.drop").count() == 5
    for _ in range(6):  # and so is what can be taken back
        press("Control+z")
    wait_until(lambda: stored(run) == {})
    press("Control+z")
    until(page, "document.querySelector('#toast').textContent.includes('Nothing to take back')")

    press("Home")
    press("Shift+ArrowRight")
    press("Shift+ArrowRight")
    assert page.locator(".card[aria-selected=true]").count() == 3
    press("q")
    wait_until(lambda: stored(run) == dict.fromkeys(ranked[:3], ("keep", None)))
    press("Control+z")
    wait_until(lambda: stored(run) == {})

    press("Home")
    press("Enter")  # one by one
    page.wait_for_selector("#single:not([hidden]) .about h2")
    assert "Labelled" in page.locator("#single h2").inner_text()
    press("e")
    wait_until(lambda: stored(run) == {ranked[0]: ("drop", None)})
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
    press("ArrowRight")
    press("w")
    press("q")
    decided = {
        ranked[0]: ("drop", None),
        ranked[1]: ("relabel", suggested(run, ranked[1])),
        ranked[2]: ("keep", None),
    }
    wait_until(lambda: stored(run) == decided)
    assert changes_exported(run) == changes_of(run, decided)


def test_mouse_only(opened, address, run, ranked):
    page = opened(address)
    button = {
        name: page.locator(f"#actions [data-action={name}]")
        for name in ("keep", "accept", "other", "drop", "undecided")
    }
    card = page.locator(".card")
    card.nth(0).click()
    button["keep"].click()
    button["drop"].click()  # the next one
    card.nth(2).click()
    button["accept"].click()
    card.nth(3).click()
    button["other"].click()
    page.locator("#picker-list [role=option]", has_text="frog").click()
    given = int(run.predictions().labels.codes[ranked[3]])
    expected = {
        ranked[0]: ("keep", None),
        ranked[1]: ("drop", None),
        ranked[2]: ("relabel", suggested(run, ranked[2])),
        ranked[3]: ("keep", None) if given == 2 else ("relabel", 2),
    }
    wait_until(lambda: stored(run) == expected)
    until(page, "document.querySelector('#counts').textContent.includes('4 of')")
    assert page.locator("#progress").get_attribute("aria-valuenow") == "4"

    card.nth(1).click()
    button["undecided"].click()
    del expected[ranked[1]]
    wait_until(lambda: stored(run) == expected)
    page.locator("#undo").click()
    expected[ranked[1]] = ("drop", None)
    wait_until(lambda: stored(run) == expected)

    for place in (5, 7):  # several at once
        card.nth(place).locator(".tick").click()
    card.nth(9).click(modifiers=["Shift"])
    assert page.locator("#chosen").inner_text() == "3 selected"
    button["drop"].click()
    expected |= dict.fromkeys(ranked[7:10], ("drop", None))
    wait_until(lambda: stored(run) == expected)

    predictions = run.predictions()
    codes, names = predictions.labels.codes, predictions.labels.names
    # While the page is open: what was decided, and nothing else.
    assert changes_exported(run) == changes_of(run, expected)

    # A pair in the heat map, and every filter.
    undecided = next(i for i in ranked if i not in expected)  # a pair that has some left
    wanted = f"given {names[codes[undecided]]}, suggested {names[suggested(run, undecided)]}:"
    page.locator(f".pairs button[aria-label^='{wanted}']").click()
    page.wait_for_selector(".pairs button[aria-pressed=true]")
    label = page.locator(".pairs button[aria-pressed=true]").get_attribute("aria-label")
    number = int(label.split(": ")[1].split()[0])
    assert page.locator("#where").inner_text().endswith(f"of {number}")
    assert card.count() == number
    page.locator("#all").click()  # all of the pair at once, and back
    page.wait_for_selector("#bulk[open]")
    assert "undecided flag" in page.locator("#bulk-text").inner_text()
    page.locator("#bulk [value=drop]").click()
    until(
        page,
        "document.querySelectorAll('.card:not(.drop)').length === "
        "document.querySelectorAll('.card.keep, .card.relabel').length",
    )
    assert len(stored(run)) > len(expected)
    page.locator("#undo").click()
    wait_until(lambda: stored(run) == expected)
    page.locator("#clear").click()
    until(page, f"document.querySelectorAll('.card').length === {min(100, len(ranked))}")
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


def test_two_tabs_do_not_overwrite_each_other(opened, address, run, ranked):
    one, two = opened(address), opened(address)
    for page in (one, two):
        page.route("**/api/changes*", lambda route: route.abort())  # they do not see each other
    two.fill("#reviewer", "bo")
    two.locator(".card").nth(0).click()
    one.keyboard.press("q")
    wait_until(lambda: stored(run) == {ranked[0]: ("keep", None)})
    two.keyboard.press("e")
    two.wait_for_selector("#conflict[open]")
    shown = two.locator("#conflict-rows").inner_text()
    assert "kept by ana" in shown
    assert "dropped" in shown
    assert stored(run) == {ranked[0]: ("keep", None)}
    two.keyboard.press("Enter")  # leave theirs
    two.wait_for_selector(f".card.keep[data-index='{ranked[0]}']")
    assert stored(run) == {ranked[0]: ("keep", None)}

    one.keyboard.press("q")  # the next one
    wait_until(lambda: ranked[1] in stored(run))
    two.locator(".card").nth(1).click()
    two.keyboard.press("e")
    two.locator("#mine").click()
    wait_until(lambda: stored(run)[ranked[1]] == ("drop", None))
    with Decisions(run.path / "decisions.sqlite") as decisions:
        history = [(c.reviewer, c.action) for c in decisions.history() if c.index == ranked[1]]
    assert history == [("ana", "keep"), ("bo", "drop")]


def test_deciding_twice_before_the_first_is_saved_is_no_conflict(opened, address, run, ranked):
    page = opened(address)
    held = []

    def hold(route):
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/api/decide", hold)
    page.keyboard.press("q")
    while not held:
        page.wait_for_timeout(10)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("e")
    assert "saving" in page.locator(".card .state").first.inner_text()
    assert stored(run) == {}
    held[0].continue_()
    page.wait_for_selector(f".card.drop:not(.waiting)[data-index='{ranked[0]}']")
    assert stored(run) == {ranked[0]: ("drop", None)}
    assert not page.locator("#conflict").is_visible()


def test_what_another_decides_appears(opened, address, run, ranked):
    page = opened(address)
    with Decisions.of(run.predictions()) as decisions:
        decisions.decide([(ranked[2], "drop", None)], reviewer="bo")
    page.wait_for_selector(f".card.drop[data-index='{ranked[2]}']")
    assert "1 of" in page.locator("#counts").inner_text()


def test_an_unreachable_server_is_told_and_nothing_is_lost(opened, address, run, ranked):
    page = opened(address)
    page.context.set_offline(True)
    page.keyboard.press("q")
    page.keyboard.press("e")
    page.wait_for_selector("#trouble:not([hidden])")
    assert "2 decisions are not saved yet" in page.locator("#trouble").inner_text()
    assert stored(run) == {}
    page.context.set_offline(False)
    page.locator("#trouble button").click()
    wait_until(lambda: stored(run) == {ranked[0]: ("keep", None), ranked[1]: ("drop", None)})
    page.wait_for_selector("#trouble", state="hidden")


def test_hostile_names_are_shown_as_they_are(opened, tmp_path):
    run = hostile_run(tmp_path)
    with serving(run, port=0, method="argmax") as address:
        page = opened(address)
        assert page.locator(".labels .name", has_text=HOSTILE_CLASS).count() > 0
        page.keyboard.press("Enter")
        for _ in range(page.locator(".card").count()):
            if HOSTILE_FILE in page.locator("#single .id").inner_text():
                break
            page.keyboard.press("ArrowRight")
        assert HOSTILE_FILE in page.locator("#single .id").inner_text()
        page.keyboard.press("c")
        page.keyboard.type("<IMG")
        assert page.locator("#picker-list li").inner_text().endswith(HOSTILE_CLASS)
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        assert HOSTILE_CLASS in page.locator("#digits").inner_text()
        assert page.locator("img:not(.small)").count() == 0  # no image but the samples'
        assert page.locator("script").count() == 1


def shown_outlook(page, *, after):
    """Rows of (name, about, interval), once the page has them for so many decisions."""
    wait_until(lambda: f"Estimated {after}." in page.locator("#outlook-basis").inner_text(), after)
    until(page, "document.querySelector('#outlook-box').ariaBusy === 'false'")
    rows = page.locator("#outlook tr:not(.scale)").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def expected_outlook(run, decided):
    """The same from `with_verdicts` called directly; `decided` are index: action number."""
    errors = find_label_errors(run.predictions(), method="all")
    N, mask, actions = len(errors), errors.mask, np.zeros(len(errors), np.int8)
    actions[list(decided)] = list(decided.values())
    estimate = errors.estimate.with_verdicts(actions, np.full(N, -1), errors.labels.codes)
    found, kept, flags = int(np.sum(actions == 3)), int(np.sum(actions == 1)), int(mask.sum())

    def row(name, own, most, written, less=0):
        """No fewer than were found, no more than were not kept."""
        low, high = max(own.low, found), min(own.high, most - kept)
        shown = [written(value - less) for value in (own.value, low, high)]
        return [name, shown[0], f"{shown[1]} to {shown[2]}"]

    def whole(value):
        return f"{int(value + 0.5):,}"

    def share(value):
        return f"{int(100 * value / flags + 0.5)}%"

    return [
        row(f"Of {N} labels", estimate.number, N, whole),
        row(f"Of {flags} flags", estimate.sum_over(mask), flags, share),
        row("Not decided yet", estimate.number, N, whole, less=found),
    ]


def test_the_estimate_follows_the_decisions(opened, address, run, ranked):
    page = opened(address)
    before = shown_outlook(page, after="before any decision")
    assert before == expected_outlook(run, {})
    assert page.locator(".outlook thead th").all_inner_texts() == ["about", "80% interval"]
    for key in "qeqeqeqeqe":
        page.keyboard.press(key)
    decided = dict(zip(ranked, [1, 3] * 5, strict=False))
    after = shown_outlook(page, after="after 10 decisions")
    assert after == expected_outlook(run, decided) != before
    with Decisions.of(run.predictions()) as decisions:  # another person's count as much
        decisions.decide([(ranked[10], "keep", None)], reviewer="bo")
    more = shown_outlook(page, after="after 11 decisions")
    assert more == expected_outlook(run, decided | {ranked[10]: 1})
    for _ in range(10):
        page.keyboard.press("Control+z")
    last = shown_outlook(page, after="after 1 decision")
    assert last == expected_outlook(run, {ranked[10]: 1})

    page.select_option("[name=method]", "argmax")  # another method's flags
    flagged = find_label_errors(run.predictions(), method="argmax").n_flagged
    wait_until(lambda: f"Of {flagged} flags" in page.locator("#outlook").inner_text())
    page.locator("#outlook-box summary").click()
    number, interval = last[0][1], last[0][2].replace(" to ", "\N{EN DASH}")
    assert page.locator("#outlook-head").inner_text() == f"about {number} ({interval})"


def test_an_unsure_estimate_offers_a_hundred_at_random(opened, tmp_path, monkeypatch):
    monkeypatch.setattr("uqled.review.outlook.doubt", lambda *_: "The model is weak.")
    run = image_run(tmp_path, N=900)
    with serving(run, port=0) as address:
        page = opened(address)
        page.wait_for_selector("#outlook-doubt:not([hidden])")
        assert page.locator("#doubt").inner_text() == "Unsure. The model is weak."
        page.locator("#hundred").click()
        until(page, "document.querySelector('#where').textContent.endsWith(' of 100')")
        listed = [int(card.get_attribute("data-index")) for card in page.locator(".card").all()]
        assert page.locator("[name=order]").input_value() == "hundred"
        for _ in range(3):
            page.keyboard.press("e")
        until(page, "document.querySelector('#hundred').textContent.endsWith('97 left')")
        page.reload()  # the queue goes on where it was
        until(page, "document.querySelector('#where').textContent.endsWith(' of 97')")
        page.locator("#all").click()
        page.wait_for_selector("#bulk[open]")
        assert "97 undecided flags of auto (of 100 at random)" in page.locator("#bulk").inner_text()
        page.locator("#bulk [value=drop]").click()
        until(page, "document.querySelector('#empty').textContent.startsWith('All of these')")
        assert stored(run) == dict.fromkeys(listed, ("drop", None))
        until(page, "document.querySelector('#hundred').hidden")


def test_narrow_dark_and_with_texts(opened, tmp_path):
    data = text_data()
    with serving(memory_run(tmp_path, data), data=data, port=0) as address:
        page = opened(
            address,
            viewport={"width": 390, "height": 844},
            color_scheme="dark",
            has_touch=True,
            is_mobile=True,
        )
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, "it scrolls sideways"
        for button in page.locator("#actions button").all():
            box = button.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            assert box["height"] >= 40, "a finger is wide"
        page.locator(".card").nth(0).tap()
        page.locator("#as-single").tap()
        page.wait_for_selector("#single .text")
        assert "number" in page.locator("#single .text").inner_text()
        page.locator("#actions [data-action=keep]").tap()
        until(page, "document.querySelector('#counts').textContent.includes('1 of')")
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, dark.removeprefix("rgb(").removesuffix(")").split(","))) < 60


def test_a_screen_reader_finds_its_way(opened, address, run, ranked):
    page = opened(address)
    tree = page.locator("body").aria_snapshot()
    names = run.predictions().labels.names
    given = names[run.predictions().labels.codes[ranked[0]]]
    assert f"given {given}" in tree
    assert "listbox" in tree
    for role in ("progressbar", "banner", "main", "contentinfo", "complementary"):
        assert role in tree, role
    nameless = page.evaluate(
        "[...document.querySelectorAll('button, select, input')].filter(e => e.checkVisibility()"
        " && !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).length"
    )
    assert nameless == 0
    page.keyboard.press("q")
    until(page, "document.querySelector('#status').textContent.startsWith('Saved')")
