"""A person's way through the review page, in a real browser: keyboard only, mouse only."""

from __future__ import annotations

import csv
import shutil
import time

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from review_runs import (
    HOSTILE_CLASS,
    HOSTILE_FILE,
    finish,
    hostile_run,
    image_run,
    memory_run,
    text_data,
)
from uqled.cli import app
from uqled.data import load
from uqled.detect.find import find_label_errors
from uqled.review.decisions import Decisions
from uqled.review.serve import serve_review

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
    with serve_review(run, port=0, reviewer="ana") as found:
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
    settle(page)  # the rest of the list follows these decisions
    third, fourth = active(page), next_index(page)
    classes = candidates(page, third)
    given = int(run.predictions().labels.codes[third])
    place = next(at for at, k in enumerate(classes) if k not in (given, suggested(run, third)))
    press(str(place + 1))  # one of the sample's own candidates
    expected[third] = ("relabel", classes[place])
    wait_until(lambda: stored(run) == expected)

    press("c")  # type-ahead
    page.keyboard.type("shi")
    press("Enter")
    given = int(run.predictions().labels.codes[fourth])
    expected[fourth] = ("keep", None) if given == 3 else ("relabel", 3)
    wait_until(lambda: stored(run) == expected)

    press("ArrowLeft")
    press("n")  # undecided again
    wait_until(lambda: fourth not in stored(run))
    press("Control+z")
    wait_until(lambda: stored(run) == expected)
    wait_until(lambda: active(page) == fourth)

    page.reload()  # in the middle: the place and the decisions are there
    page.wait_for_selector(".card.active")
    wait_until(lambda: active(page) == fourth)
    assert page.locator(".card.keep, .card.relabel, .card.drop").count() == 5
    for _ in range(6):  # and so is what can be taken back
        press("Control+z")
    wait_until(lambda: stored(run) == {})
    press("Control+z")
    until(page, "document.querySelector('#toast').textContent.includes('Nothing to take back')")

    page.wait_for_timeout(500)  # a page with a request under way asks before it is left
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(".card.active")
    assert active(page) == ranked[0]
    press("Shift+ArrowRight")
    press("Shift+ArrowRight")
    assert page.locator(".card[aria-selected=true]").count() == 3
    press("q")
    wait_until(lambda: stored(run) == dict.fromkeys(ranked[:3], ("keep", None)))
    press("Control+z")
    wait_until(lambda: stored(run) == {})
    settle(page)

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
    settle(page)
    press("ArrowRight")
    second, third = active(page), next_index(page)
    press("w")
    press("q")
    decided = {
        ranked[0]: ("drop", None),
        second: ("relabel", suggested(run, second)),
        third: ("keep", None),
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

    def index_of(place):
        settle(page)
        return int(card.nth(place).get_attribute("data-index"))

    card.nth(0).click()
    button["keep"].click()
    button["drop"].click()  # the next one
    expected = {ranked[0]: ("keep", None), ranked[1]: ("drop", None)}
    accepted = index_of(2)
    card.nth(2).click()
    button["accept"].click()
    expected[accepted] = ("relabel", suggested(run, accepted))
    other = index_of(3)
    card.nth(3).click()
    button["other"].click()
    page.locator("#picker-list [role=option]", has_text="frog").click()
    given = int(run.predictions().labels.codes[other])
    expected[other] = ("keep", None) if given == 2 else ("relabel", 2)
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

    settle(page)
    several = [index_of(place) for place in (7, 8, 9)]
    for place in (5, 7):  # several at once
        card.nth(place).locator(".tick").click()
    card.nth(9).click(modifiers=["Shift"])
    assert page.locator("#chosen").inner_text() == "3 selected"
    button["drop"].click()
    expected |= dict.fromkeys(several, ("drop", None))
    wait_until(lambda: stored(run) == expected)
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

    both = int(two.locator(".card").nth(1).get_attribute("data-index"))
    one.locator(f".card[data-index='{both}']").click()
    one.keyboard.press("q")
    wait_until(lambda: both in stored(run))
    two.locator(f".card[data-index='{both}']").click()
    two.keyboard.press("e")
    two.locator("#mine").click()
    wait_until(lambda: stored(run)[both] == ("drop", None))
    with Decisions(run.path / "decisions.sqlite") as decisions:
        history = [(c.reviewer, c.action) for c in decisions.history() if c.index == both]
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
    with serve_review(run, port=0, method="argmax") as address:
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
        assert page.locator("img:not(.picture img)").count() == 0  # no image but the samples'
        assert page.locator("script").count() == 1


def shown_estimates(page, *, after):
    """Rows of (name, about, interval), once the page has them for so many decisions."""
    text = page.locator("#estimates-basis")
    wait_until(lambda: f"Estimated {after}." in text.inner_text(), after)
    settle(page)
    rows = page.locator("#estimates tr:not(.scale)").all()
    return [row.locator("th, td").all_inner_texts() for row in rows]


def expected_estimates(run, decided):
    """The same from detection with these verdicts; `decided` are index: action number."""
    N = len(run.predictions())
    actions = np.zeros(N, np.int8)
    actions[list(decided)] = list(decided.values())
    verdicts = (actions, np.full(N, -1)) if decided else None
    answer = find_label_errors(run.predictions(), verdicts=verdicts).answer
    dropped = int(np.sum(actions == 3))

    def row(name, one, written, less=0):
        values = [written(value - less) for value in (one.value, one.low, one.high)]
        return [name, values[0], f"{values[1]} to {values[2]}"]

    def whole(value):
        return f"{int(value + 0.5):,}"

    def share(value):
        return f"{int(100 * value + 0.5)}%" if not 0.99 < value < 1 else ">99%"

    return [
        row(f"Of {N} labels", answer.n_errors, whole),
        row(f"Of {answer.n_flagged} flags", answer.precision, share),
        row("Not decided yet", answer.n_errors, whole, less=dropped),
    ]


def test_the_estimate_and_the_list_follow_the_decisions(opened, address, run):
    page = opened(address)
    before = shown_estimates(page, after="before any decision")
    assert before == expected_estimates(run, {})
    assert page.locator(".estimates thead th").all_inner_texts() == ["about", "80% interval"]
    decided = {}
    for key, action in zip("qeqeqeqeqe", [1, 3] * 5, strict=True):
        decided[active(page)] = action
        page.keyboard.press(key)
    after = shown_estimates(page, after="after 10 decisions")
    assert after == expected_estimates(run, decided) != before
    listed = [int(card.get_attribute("data-index")) for card in page.locator(".card").all()]
    assert listed[:10] == list(decided)  # what is decided stays where it is
    actions = np.zeros(len(run.predictions()), np.int8)
    actions[list(decided)] = list(decided.values())
    current = find_label_errors(run.predictions(), verdicts=(actions, np.full(len(actions), -1)))
    undecided = [i for i in current.ranked.tolist() if i not in decided]
    here = active(page)
    assert listed[10:] == [here, *(i for i in undecided if i != here)][: len(listed) - 10]
    assert "after 10 decisions" in page.locator("#order-note").inner_text()

    other = undecided[-1]
    with Decisions.of(run.predictions()) as decisions:  # another person's count as much
        decisions.decide([(other, "keep", None)], reviewer="bo")
    more = shown_estimates(page, after="after 11 decisions")
    assert more == expected_estimates(run, decided | {other: 1})
    for _ in range(10):
        page.keyboard.press("Control+z")
    last = shown_estimates(page, after="after 1 decision")
    assert last == expected_estimates(run, {other: 1})

    page.select_option("[name=method]", "argmax")  # another method's flags
    flagged = find_label_errors(run.predictions(), method="argmax").n_flagged
    wait_until(lambda: f"Of {flagged} flags" in page.locator("#estimates").inner_text())
    page.locator("#estimates-box summary").click()
    number, interval = last[0][1], last[0][2].replace(" to ", "\N{EN DASH}")
    assert page.locator("#estimates-head").inner_text() == f"about {number} ({interval})"


def test_a_hundred_at_random_then_many_at_once(opened, tmp_path):
    run = image_run(tmp_path, N=900)
    truth, given = run.predictions().truth, run.predictions().labels.codes
    with serve_review(run, port=0) as address:
        page = opened(address)
        page.locator("#hundred").click()
        until(page, "document.querySelector('#where').textContent.endsWith(' of 100')")
        assert page.locator("[name=order]").input_value() == "hundred"
        assert not page.locator("#bulk-button").is_visible()  # nobody has looked at anything
        for _ in range(25):
            page.keyboard.press("q" if truth[active(page)] == given[active(page)] else "w")
        until(page, "document.querySelector('#hundred').textContent.endsWith('75 left')")
        page.reload()  # the queue goes on where it was
        until(page, "document.querySelector('#where').textContent.endsWith(' of 75')")
        page.locator("#clear").click()
        page.locator("#bulk-button").click()
        page.wait_for_selector("#bulk[open]")
        offer = page.locator("#bulk-offers li").last
        n = int(offer.locator("button").inner_text().split()[2])
        assert (
            f"up to {n - int(0.9 * n)} " in offer.inner_text()
            or "right labels" in offer.inner_text()
        )
        offer.locator("button").click()
        wait_until(lambda: len(stored(run)) == 25 + n, "accepting")
        page.keyboard.press("Control+z")
        wait_until(lambda: len(stored(run)) == 25, "one undo")


def test_a_picture_is_shown_in_its_own_resolution_with_zoom(opened, tmp_path):
    rng = np.random.default_rng(0)
    for k, name in enumerate(("cat", "dog")):
        (tmp_path / "data" / name).mkdir(parents=True)
        for i in range(20):
            pixels = rng.integers(0, 90, (900, 600, 3)).astype(np.uint8)  # a portrait
            pixels[..., k] += 120
            Image.fromarray(pixels).save(tmp_path / "data" / name / f"{i:02d}.jpg", quality=50)
    data = load(tmp_path / "data", image_size=(32, 48), cache=False)  # what the model sees
    run = finish(tmp_path / "run", data, wrong=0.4)
    with serve_review(run, port=0, method="argmax") as address:
        page = opened(address)
        small = page.locator(".card img").first
        until(page, "document.querySelector('.card img').naturalHeight === 256")
        assert small.evaluate("image => image.naturalWidth") == 171  # not squashed
        page.keyboard.press("Enter")
        image = page.locator("#single figure img")
        until(page, "document.querySelector('#single figure img')?.naturalHeight === 900")
        assert image.evaluate("image => getComputedStyle(image).imageRendering") == "auto"
        assert image.evaluate("image => image.style.transform") == ""
        page.keyboard.press("z")
        until(
            page, "document.querySelector('#single figure img').style.transform.includes('scale')"
        )
        page.keyboard.press("z")
        until(
            page,
            "document.querySelector('#single figure img').style.transform.includes('scale(1)')",
        )
        box = page.locator("#single figure").bounding_box()
        page.mouse.move(box["x"] + 50, box["y"] + 50)
        page.mouse.wheel(0, -400)
        until(page, "document.querySelector('#single figure').classList.contains('zoomed')")
        before = image.evaluate("image => image.style.transform")
        page.mouse.down()
        page.mouse.move(box["x"] + 90, box["y"] + 60)
        page.mouse.up()
        assert image.evaluate("image => image.style.transform") != before  # moved
        page.keyboard.press("q")  # keys decide as ever, and the next one fits again
        until(page, "document.querySelector('#single figure img').style.transform === ''")


def test_groups_are_decided_with_one_key_and_taken_back_with_one(opened, address, run):
    page = opened(address)
    labels = run.predictions().labels
    page.keyboard.press("g")
    page.wait_for_selector("#groups .tile")
    first = page.locator("#groups .tile").first
    out = page.locator("#groups .tile").nth(1)
    out.click()  # it does not belong to them
    n = page.locator("#groups .tile").count()
    question = page.locator("#groups h2").inner_text()
    assert "Are these all" in question
    assert first.get_attribute("aria-pressed") == "true"
    assert out.get_attribute("aria-pressed") == "false"
    page.keyboard.press("w")
    wait_until(lambda: len(stored(run)) == n - 1, "deciding the group")
    decided = stored(run)
    assert {action for action, _ in decided.values()} == {"relabel"}
    assert len({label for _, label in decided.values()}) == 1  # what the question says
    assert all(label != labels.codes[i] for i, (_, label) in decided.items())
    until(page, "document.querySelector('#toast').textContent.startsWith('Saved')")
    page.keyboard.press("Control+z")  # the whole group, and nothing else
    wait_until(lambda: stored(run) == {}, "taking it back")
    until(page, f"document.querySelectorAll('#groups .tile').length === {n}")
    page.keyboard.press("q")
    wait_until(lambda: len(stored(run)) == n, "keeping the group")
    page.keyboard.press("Escape")
    page.wait_for_selector("#list:not([hidden]) .card")
    assert page.locator("#counts").inner_text().startswith(str(n))


def test_narrow_dark_and_with_texts(opened, tmp_path):
    data = text_data()
    with serve_review(memory_run(tmp_path, data), data=data, port=0) as address:
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
        page.wait_for_selector("#single figure .text")
        assert "number" in page.locator("#single figure .text").inner_text()
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
