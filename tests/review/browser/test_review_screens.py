"""Every screen of the review page in a browser: axe-core, the map, classes, two people."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from browsers import needs_chromium
from review_pages import settle, until, wait_until
from review_runs import finish, image_run, list_decisions
from uqled.data import Dataset
from uqled.review.decisions import Decisions
from uqled.review.decisions.classes import read_class_decisions
from uqled.review.decisions.opinions import read_opinions
from uqled.review.serve import serve_review

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")
pytestmark = needs_chromium

SCREENS = ("grid", "single", "groups", "map", "classes")


def show_screen(page, screen):
    page.locator(f"#as-{screen}").click()
    page.wait_for_selector(f"#{'list' if screen == 'grid' else screen}:not([hidden])")
    settle(page)


def list_serious(page, scheme):
    """What axe-core calls serious or critical. A dark page is a light one in other colours: of it,
    only the contrasts are looked at again."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    contrasts = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
    answer = axe.run(page, options=contrasts if scheme == "dark" else None).response
    n_rules = 10 if scheme == "light" else 0
    assert len(answer["passes"]) > n_rules  # they were really run
    return [
        (one["id"], node["target"], node.get("failureSummary", "")[:200])
        for one in answer["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_screen(open_page, address, scheme):
    page = open_page(address, color_scheme=scheme, bypass_csp=True)
    page.locator("#estimates-box summary").click()
    for screen in SCREENS:
        show_screen(page, screen)
        if screen == "classes":
            page.locator(".class-table button").first.click()
            page.wait_for_selector("#class-merge")
        assert list_serious(page, scheme) == [], screen
    page.keyboard.press("?")
    assert list_serious(page, scheme) == [], "help"
    page.keyboard.press("Escape")
    show_screen(page, "grid")
    page.keyboard.press("c")
    page.wait_for_selector("#picker[open] [role=option]")
    assert list_serious(page, scheme) == [], "class picker"
    page.keyboard.press("Escape")
    page.locator("#audit").click()
    until(page, "document.querySelector('#order-note').textContent.startsWith('Drawn at random')")
    page.keyboard.press("q")
    page.wait_for_selector(".card.keep")
    settle(page)
    assert list_serious(page, scheme) == [], "audit"
    page.evaluate("localStorage.setItem('reviewer', 'bo')")
    page.reload()
    page.locator("#second").click()
    page.wait_for_selector("#single:not([hidden]) .evidence")
    assert list_serious(page, scheme) == [], "second opinions"


def test_a_lasso_on_the_map_fills_the_grid_and_a_click_opens_a_sample(open_page, run, address):
    page = open_page(address)
    page.keyboard.press("m")
    wait_until((run.path / "map.npy").exists, "the map")
    until(page, "document.querySelector('#map-note').textContent.startsWith('200 samples')")
    places = np.load(run.path / "map.npy")
    box = page.locator("#map-canvas").bounding_box()
    half = min(box["width"], box["height"]) * 0.47
    x = box["x"] + box["width"] / 2 + places[:, 0] * half
    y = box["y"] + box["height"] / 2 - places[:, 1] * half
    right = box["x"] + box["width"] / 2
    corners = [(right, box["y"] + 2), (box["x"] + box["width"] - 2, box["y"] + 2),
               (box["x"] + box["width"] - 2, box["y"] + box["height"] - 2),
               (right, box["y"] + box["height"] - 2)]  # fmt: skip
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*corner, steps=5)
    page.mouse.up()
    page.wait_for_selector("#list:not([hidden]) .card")
    inside = np.flatnonzero(x > right)
    until(page, f"document.querySelector('#where').textContent.endsWith(' of {len(inside)}')")
    listed_samples = {int(card.get_attribute("data-index")) for card in page.locator(".card").all()}
    assert listed_samples <= set(inside.tolist())
    page.locator("#as-map").click()
    page.wait_for_selector("#map:not([hidden])")
    lone = int(np.argmin(x))
    page.mouse.click(float(x[lone]), float(y[lone]))
    page.wait_for_selector("#single:not([hidden])")
    until(page, f"location.hash.includes('only={lone}')")
    page.keyboard.press("e")
    wait_until(lambda: list_decisions(run) == {lone: ("drop", None)}, "deciding")


def test_the_map_by_keyboard_alone(open_page, run, address):
    page = open_page(address)
    press = page.keyboard.press
    press("m")
    wait_until((run.path / "map.npy").exists, "the map")
    until(page, "document.querySelector('#map-note').textContent.startsWith('200 samples')")
    until(page, "document.activeElement.id === 'map-canvas'")
    places = np.load(run.path / "map.npy")
    box = page.locator("#map-canvas").bounding_box()
    half = min(box["width"], box["height"]) * 0.47
    for _ in range(3):
        press("ArrowRight")  # the map moves by 60 pixels, so that the cross is over its right
    until(page, "!document.querySelector('#map-hint').hidden")
    nearest = int(np.argmin(np.linalg.norm(places - [180 / half, 0], axis=1)))
    press("Enter")
    page.wait_for_selector("#single:not([hidden])")
    until(page, f"location.hash.includes('only={nearest}')")
    press("Escape")
    press("m")
    page.wait_for_selector("#map:not([hidden])")
    for _ in range(3):
        press("+")
    while page.evaluate("document.activeElement.id") != "map-view":
        press("Shift+Tab")
    press("Enter")  # what is in sight, in the grid
    until(page, "location.hash.includes('lasso=')")  # written once its list is there
    scale = half * 1.4**3
    x, y = (places[:, 0] * scale - 180 * 1.4**3), places[:, 1] * scale
    inside = (abs(x) < box["width"] / 2) & (abs(y) < box["height"] / 2)
    total = int(page.locator("#where").inner_text().split(" of ")[1])
    assert abs(total - np.count_nonzero(inside)) <= 2  # corners are rounded to thousandths
    assert page.locator("#tiers [aria-pressed=true]").count() == 0  # these need not be flags
    press("m")
    press("Escape")
    page.wait_for_selector("#list:not([hidden]) .card")


def test_two_people_in_two_browsers(open_page, run, address):
    ana = open_page(address)
    for key in "wqw":
        ana.keyboard.press(key)
    wait_until(lambda: len(list_decisions(run)) == 3, "ana's decisions")
    bo = open_page(address)
    bo.locator("#reviewer").fill("bo")
    bo.locator("#reviewer").press("Enter")
    bo.reload()
    bo.locator("#second").click()
    bo.wait_for_selector("#single:not([hidden])")
    until(bo, "document.querySelector('#order-note').textContent.startsWith('Second opinions')")
    assert not bo.locator("#single .state").is_visible()  # ana's decision is hidden
    for _ in range(3):
        before = bo.locator("#where").inner_text()
        bo.keyboard.press("w")
        if not before.startswith("3 "):
            until(bo, f"document.querySelector('#where').textContent !== '{before}'")
    until(bo, "document.querySelector('#agreement').textContent.includes('agree on 2 of 3')")
    bo.keyboard.press("Control+z")
    until(bo, "document.querySelector('#toast').textContent.includes('your opinion')")
    until(bo, "document.querySelector('#agreement').textContent.includes(' of 2')")
    assert not bo.locator("#single .state").is_visible()
    bo.keyboard.press("w")
    until(bo, "document.querySelector('#agreement').textContent.includes('agree on 2 of 3')")
    with Decisions(run.path / "decisions.sqlite") as decisions:
        assert len(read_opinions(decisions)) == 3
        assert {one.reviewer for one in decisions.current().values()} == {"ana"}
    bo.locator("#as-grid").click()
    bo.locator("#differ").click()
    until(bo, "document.querySelector('#where').textContent === '1 of 1'")
    until(bo, "document.querySelector('.opinions')?.textContent.includes('bo: now')")
    # ana's page says so too, without a decision of hers
    until(ana, "document.querySelector('#agreement').textContent.includes('agree on 2 of 3')")
    bo.keyboard.press("w")  # settled: kappa stays, the list of differences is empty
    until(bo, "document.querySelector('#differ').hidden")
    until(bo, "document.querySelector('#agreement').textContent.includes('agree on 2 of 3')")


def test_a_class_is_renamed_by_keyboard_and_taken_back(open_page, run, address):
    page = open_page(address)
    page.keyboard.press("k")
    page.locator(".class-table button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#class-name")
    page.locator("#class-name").focus()
    page.keyboard.type("<i>new</i>")
    page.keyboard.press("Enter")
    page.wait_for_selector("#class-undo")
    assert "renamed to <i>new</i> by ana" in page.locator("#classes .state").inner_text()
    with Decisions(run.path / "decisions.sqlite") as decisions:
        assert [one.name for one in read_class_decisions(decisions).values()] == ["<i>new</i>"]
    page.locator("#classes h2").click()
    page.keyboard.press("Control+z")
    page.wait_for_selector("#class-undo", state="detached")
    with Decisions(run.path / "decisions.sqlite") as decisions:
        assert read_class_decisions(decisions) == {}


def test_a_sample_of_a_class_is_opened_by_a_click(open_page, run, address):
    page = open_page(address)
    page.keyboard.press("k")
    page.locator(".class-table button").first.click()
    sample = page.locator(".strip.odd .open").first
    name = sample.get_attribute("title")
    sample.click()
    page.wait_for_selector("#single:not([hidden]) .evidence")
    assert page.locator("#single .id").inner_text() == f"sample {name}"
    page.keyboard.press("e")
    index = run.predictions().ids.index(name)
    wait_until(lambda: list_decisions(run) == {index: ("drop", None)}, "deciding")


def test_a_box_with_the_mouse_and_alike_ones_are_one_undo_each(open_page, tmp_path):
    run = image_run(tmp_path, N=400, margin=3.0)
    with serve_review(run, port=0, reviewer="ana") as address:
        page = open_page(address)
        first, third = (page.locator(".card").nth(at).bounding_box() for at in (0, 2))
        page.mouse.move(first["x"] + 5, first["y"] + first["height"] / 2)
        page.mouse.down()
        page.mouse.move(third["x"] + 5, third["y"] + first["height"] / 2, steps=4)
        page.mouse.up()
        assert page.locator(".card[aria-selected=true]").count() == 3
        page.keyboard.press("e")
        wait_until(lambda: len(list_decisions(run)) == 3, "dropping three")
        page.keyboard.press("Control+z")
        wait_until(lambda: list_decisions(run) == {}, "one undo")
        settle(page)
        page.keyboard.press("l")
        page.wait_for_selector(".tile")
        n = page.locator(".tile").count()
        assert n > 1
        page.keyboard.press("w")
        wait_until(lambda: len(list_decisions(run)) == n, "the group")
        page.keyboard.press("Control+z")
        wait_until(lambda: list_decisions(run) == {}, "one undo of the group")


CUT_ELEMENTS = """(selector) => [...document.querySelectorAll(selector)]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1)
  .map((one) => one.textContent)"""
LINES = """(one) => one.offsetHeight / parseFloat(getComputedStyle(one).lineHeight)"""


@pytest.mark.parametrize("width", [1200, 768, 620, 390, 340])
def test_names_and_buttons_are_whole_at_every_width(open_page, address, width):
    page = open_page(address, viewport={"width": width, "height": 800})
    if not page.locator("#filter-box").evaluate("(box) => box.open"):
        page.locator("#filter-box summary").click()
    assert page.locator("#pairs th span").count() > 0
    assert page.evaluate(CUT_ELEMENTS, "#pairs th span") == []
    assert page.evaluate(CUT_ELEMENTS, "#actions button") == []
    right = "Math.max(...[...actions.children].map((one) => one.getBoundingClientRect().right))"
    assert page.evaluate(f"{right} <= innerWidth")
    for word in page.locator("#actions .more").all():
        assert word.evaluate(LINES) < 2, word.inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_numbers_on_every_colour_of_the_heat_map_can_be_read(open_page, address, scheme):
    def make_pairs(route):
        answer = route.fetch()
        content = answer.json()
        cells = [(i, j) for i in range(4) for j in range(4) if i != j]
        content["overview"]["pairs"] = [[*cell, 8 * n + 1] for n, cell in enumerate(cells)]
        route.fulfill(response=answer, json=content)

    routes = {"**/api/start*": make_pairs, "**/api/estimates*": make_pairs}
    page = open_page(address, color_scheme=scheme, routes=routes)
    assert page.locator("#pairs td button").count() == 12
    assert list_serious(page, scheme) == []


@pytest.mark.parametrize("width", [1600, 1280, 768, 390])
def test_estimates_of_an_unsure_model_are_whole(open_page, address, width):
    def make_unsure(route):
        answer = route.fetch()
        content = answer.json()
        wide = {"value": 12345, "low": 4445, "high": 21960}
        content["estimates"] |= {"samples": 123456, "flagged": 12345, "wrong": wide, "left": wide}
        content["estimates"] |= {
            "real": {"value": 0.69, "low": 0.32, "high": 1},
            "real_confidence": 0.95,
            "unsure": "The model's own errors cannot be told from wrong labels here.",
        }
        route.fulfill(response=answer, json=content)

    page = open_page(
        address, viewport={"width": width, "height": 800}, routes={"**/api/estimates*": make_unsure}
    )
    page.locator("#estimates-box summary").click()
    page.wait_for_selector("#unsure-box:not([hidden])")
    assert "32% to 100%" in page.locator("#estimates").inner_text()
    right = page.locator("#estimates-box").evaluate("(box) => box.parentElement.clientWidth")
    left = page.locator("aside").bounding_box()["x"]
    for cell in page.locator("#estimates :is(th, .value, .ends-at)").all():
        box = cell.bounding_box()
        assert box["x"] + box["width"] <= left + right, cell.inner_text()
    overflow = "(one) => one.scrollWidth - one.clientWidth"
    assert page.locator("aside").evaluate(overflow) == 0


def test_the_answer_to_a_group_stays_in_sight(open_page, address):
    page = open_page(address, viewport={"width": 390, "height": 420})
    show_screen(page, "groups")
    page.wait_for_selector("#groups .tile")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    scroll_position = page.evaluate("scrollY")
    head = page.locator("header").bounding_box()
    button = page.locator("#groups .group-actions button").first.bounding_box()
    assert scroll_position > 100
    assert head["y"] + head["height"] <= button["y"] + 1 < 420


# Words that stand on two lines: parts behind a hyphen or a place for a break count as words.
BROKEN_WORDS = """(selector) => [...document.querySelectorAll(selector)].flatMap((box) => {
  const broken = [];
  const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) for (const word of walker.currentNode.data.matchAll(/[^\\s-]+/g)) {
    const range = document.createRange();
    range.setStart(walker.currentNode, word.index);
    range.setEnd(walker.currentNode, word.index + word[0].length);
    const lines = new Set([...range.getClientRects()].map((one) => Math.round(one.top)));
    if (lines.size > 1) broken.push(word[0]);
  }
  return broken;
})"""


# Pixels of a card's height that are not its text or row.
NEIGHBOURING_BOXES = """(selector) => [...document.querySelectorAll(selector)].map(
  (card) => card.offsetHeight - card.querySelector(".text, .row").offsetHeight)"""


def make_wordy_data(kind, N=120):
    """Texts of one line and of many, or rows with long words; long class names."""
    codes = np.arange(N) % 3
    names = np.array(["card_payment_not_recognised", "balance_not_updated_after_transfer", "other"])
    if kind == "texts":
        texts = [f"Where is number {i}?" + " I have waited for weeks" * (i % 12) for i in range(N)]
        return Dataset.from_arrays(np.array(texts, object), names[codes])
    words = np.array(["Handlers-cleaners", "Not-in-family", "Unmarried"])
    columns = {"relationship": words[codes], "marital-status": words[(codes + 1) % 3]}
    numbers = {f"column {k}": np.arange(N) * 1234.5 for k in range(8)}
    return Dataset.from_arrays(pd.DataFrame(numbers | columns), names[codes])


@pytest.mark.parametrize("width", [1920, 1280, 820, 390])
def test_names_of_classes_are_not_broken_in_a_word(open_page, tmp_path, width):
    names = ["pomegranate", "golden_retriever", "Newfoundland", "German_shepherd"]
    run = image_run(tmp_path, classes=names)
    with serve_review(run, port=0, reviewer="ana") as address:
        page = open_page(address, viewport={"width": width, "height": 800}, bypass_csp=True)
        if not page.locator("#filter-box").evaluate("(box) => box.open"):
            page.locator("#filter-box summary").click()
        assert page.locator(".pairs th").count() > 4
        for boxes in (".card .labels", ".pairs tbody th"):
            assert page.evaluate(BROKEN_WORDS, boxes) == [], boxes
        show_screen(page, "single")
        page.wait_for_selector(".evidence")
        assert page.evaluate(BROKEN_WORDS, ".evidence, .about h2, .bars") == []
        show_screen(page, "classes")
        page.locator(".class-table button").first.click()
        page.wait_for_selector("#class-merge")
        assert page.evaluate("document.activeElement.tagName") == "H2"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "class-merge"
        assert page.evaluate(BROKEN_WORDS, "#classes") == []


@pytest.mark.parametrize("kind", ["texts", "table"])
def test_texts_and_rows_are_whole_on_a_phone(open_page, tmp_path, kind):
    data = make_wordy_data(kind)
    run = finish(tmp_path / "run", data)
    with serve_review(run, data=data, port=0, reviewer="ana") as address:
        page = open_page(address, viewport={"width": 390, "height": 800}, bypass_csp=True)
        for screen in ("grid", "groups", "single"):
            show_screen(page, screen)
            boxes = {"grid": ".card", "groups": ".tile", "single": ".evidence, .about h2"}[screen]
            page.wait_for_selector(boxes)
            assert page.evaluate(BROKEN_WORDS, boxes) == [], screen
            assert (
                page.evaluate(CUT_ELEMENTS, f":is({boxes}) :is(.key, .caption, h3, th, td)") == []
            ), screen
            text = f":is({boxes}) :is(.text, .value)"
            lines = [box.evaluate(LINES) for box in page.locator(text).all() if box.is_visible()]
            assert all(abs(n - round(n)) < 0.05 for n in lines), screen
        show_screen(page, "grid")
        card = page.locator(".card").first
        before = card.bounding_box()["height"]
        assert (
            max(page.evaluate(NEIGHBOURING_BOXES, ".card")) < 65
        )  # both labels and the edges: no empty row
        if kind == "table":  # what tells the classes apart comes first
            assert card.locator(".field .key").first.inner_text() in (
                "relationship",
                "marital-status",
            )
            assert "telling" in card.locator(".field").first.get_attribute("class")
        page.keyboard.press("q")
        page.wait_for_selector(".card.keep .state:not(:empty)")
        settle(page)
        assert abs(page.locator(".card.keep").bounding_box()["height"] - before) <= 1
        for key in "we":
            page.keyboard.press(key)
        page.wait_for_selector(".card.drop .state:not(:empty)")
        settle(page)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert list_serious(page, scheme) == [], scheme
