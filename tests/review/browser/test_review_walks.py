"""Every screen of the review page by keyboard alone, and by mouse alone."""

from __future__ import annotations

import numpy as np
import pytest

from browsers import needs_chromium
from review_pages import settle, until, wait_until
from review_runs import list_decisions
from uqled.review.decisions import Decisions
from uqled.review.decisions.classes import read_class_decisions
from uqled.review.decisions.opinions import read_opinions

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")
pytestmark = needs_chromium


def tab_to(page, selector):
    """Press Tab until the first element that fits has the focus, as a person without a mouse."""
    page.wait_for_selector(selector, state="attached")
    for _ in range(150):
        if page.evaluate(f"document.activeElement === document.querySelector('{selector}')"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {selector}")


def read_classes(run):
    with Decisions(run.path / "decisions.sqlite") as decisions:
        current = read_class_decisions(decisions)
    return {k: (one.action, one.target, one.name) for k, one in current.items()}


def count_opinions(run):
    with Decisions(run.path / "decisions.sqlite") as decisions:
        return sum(map(len, read_opinions(decisions).values()))


def test_every_screen_by_keyboard_alone(open_page, run, address):
    page = open_page(address)
    press, names = page.keyboard.press, run.predictions().labels.names

    press("g")  # a group with an exception
    tab_to(page, "#groups li:nth-child(2) .tile")
    press("Space")
    n = page.locator("#groups .tile").count()
    press("w")
    wait_until(lambda: len(list_decisions(run)) == n - 1, "the group")
    press("ArrowRight")
    press("ArrowLeft")
    press("Control+z")
    wait_until(lambda: list_decisions(run) == {}, "one undo")
    press("Escape")
    page.wait_for_selector("#list:not([hidden])")

    press("k")  # a class is found, merged, and left as it was
    tab_to(page, "#classes input[type=search]")
    page.keyboard.type("sh")
    tab_to(page, "#classes tbody button")
    press("Enter")
    tab_to(page, "#class-merge")
    press("Enter")
    page.keyboard.type("do")
    press("Enter")
    page.wait_for_selector("#class-undo")
    merged = {names.index("ship"): ("merge", names.index("dog"), None)}
    assert read_classes(run) == merged
    press("Control+z")
    page.wait_for_selector("#class-undo", state="detached")
    assert read_classes(run) == {}
    tab_to(page, "#class-name")
    page.keyboard.type("vessel")
    press("Enter")
    page.wait_for_selector("#class-undo")
    assert read_classes(run) == {names.index("ship"): ("rename", None, "vessel")}
    tab_to(page, "#class-undo")
    press("Enter")
    page.wait_for_selector("#class-undo", state="detached")
    press("Escape")
    page.wait_for_selector("#list:not([hidden])")

    tab_to(page, "#estimates-box summary")  # the audit
    press("Enter")
    tab_to(page, "#audit")
    press("Enter")
    until(page, "document.querySelector('#order-note').textContent.startsWith('Drawn at random')")
    assert page.locator("#tiers [aria-pressed=true]").count() == 0
    press("Home")
    press("q")
    wait_until(lambda: len(list_decisions(run)) == 1, "the audit's first verdict")
    until(page, "document.querySelector('#audit-note').textContent.includes('1 of 40')")

    tab_to(page, "#reviewer")  # another person's opinion
    press("Control+a")
    page.keyboard.type("bo")
    press("Enter")
    tab_to(page, "#clear")
    press("Enter")
    settle(page)
    page.reload()
    tab_to(page, "#second")
    press("Enter")
    page.wait_for_selector("#single:not([hidden])")
    press("e")
    wait_until(lambda: count_opinions(run) == 1, "the opinion")
    press("Control+z")
    wait_until(lambda: count_opinions(run) == 0, "taking it back")
    press("Escape")
    press("?")
    page.wait_for_selector("#keys[open]")
    press("Escape")


def test_every_screen_by_mouse_alone(open_page, run, address):
    page = open_page(address)
    names = run.predictions().labels.names

    page.locator("#as-groups").click()
    page.locator(".tile").nth(1).click()
    n = page.locator(".tile").count()
    page.locator(".group-actions .relabel").click()
    wait_until(lambda: len(list_decisions(run)) == n - 1, "the group")
    page.locator("#undo").click()
    wait_until(lambda: list_decisions(run) == {}, "one undo")
    settle(page)
    page.locator(".group-actions button", has_text="Skip").click()
    page.locator(".group-actions button", has_text="Previous").click()

    page.locator("#as-classes").click()
    page.locator(".class-table button", has_text="ship").click()
    page.locator("#class-merge").click()
    page.locator("#picker-list [role=option]", has_text="dog").click()
    page.wait_for_selector("#class-undo")
    assert read_classes(run) == {names.index("ship"): ("merge", names.index("dog"), None)}
    page.locator("#undo").click()
    page.wait_for_selector("#class-undo", state="detached")
    assert read_classes(run) == {}
    page.locator("#classes .chip").first.click()  # a pair of classes, in the grid
    page.wait_for_selector("#list:not([hidden]) .card")
    until(page, "!document.querySelector('#filtered').hidden")
    page.locator("#clear").click()

    page.locator("#as-map").click()  # moving the map opens nothing; a click does
    wait_until((run.path / "map.npy").exists, "the map")
    until(page, "document.querySelector('#map-note').textContent.startsWith('200 samples')")
    page.locator("#map-move-tool").click()
    box = page.locator("#map-canvas").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    half = min(box["width"], box["height"]) * 0.47
    places = np.load(run.path / "map.npy") * [half, -half] + middle
    lone = int(np.argmin(places[:, 0]))
    page.mouse.move(*places[lone].tolist())
    page.mouse.down()
    page.mouse.move(places[lone][0] + 80, places[lone][1], steps=4)
    page.mouse.up()
    assert page.locator("#map").is_visible()
    page.mouse.click(places[lone][0] + 80, places[lone][1])
    until(page, f"location.hash.includes('only={lone}')")
    page.locator("#as-map").click()
    page.locator("#map-all").click()
    page.locator("#map-in").click()
    page.locator("#map-view").click()
    page.wait_for_selector("#list:not([hidden]) .card")
    page.locator("#clear").click()

    page.locator("#estimates-box summary").click()
    page.locator("#audit").click()
    until(page, "document.querySelector('#order-note').textContent.startsWith('Drawn at random')")
    page.locator(".card").first.click()
    page.locator("#actions [data-action=keep]").click()
    wait_until(lambda: len(list_decisions(run)) == 1, "the audit's first verdict")

    page.locator("#reviewer").fill("bo")
    page.locator("#clear").click()
    page.reload()
    page.locator("#second").click()
    page.wait_for_selector("#single:not([hidden])")
    page.locator("#actions [data-action=drop]").click()
    wait_until(lambda: count_opinions(run) == 1, "the opinion")
    page.locator("#undo").click()
    wait_until(lambda: count_opinions(run) == 0, "taking it back")


def test_two_fingers_zoom_into_the_picture_however_they_lie(open_page, address):
    page = open_page(address, viewport={"width": 390, "height": 844}, has_touch=True)
    page.locator("#as-single").tap()
    page.wait_for_selector("#single figure img")
    box = page.locator("#single figure").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touches = page.context.new_cdp_session(page)

    def touch(kind, *points):
        points = [{"x": px, "y": py, "id": k} for k, (px, py) in enumerate(points)]
        touches.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def pinch(distances, dx, dy):
        for k, distance in enumerate(distances):
            fingers = [(x + s * distance * dx, y + s * distance * dy) for s in (-1, 1)]
            if k == 0:
                touch("touchStart", fingers[0])
            touch("touchMove" if k else "touchStart", *fingers)
        touch("touchEnd")

    scale = (
        "Number(/scale\\((.*)\\)/.exec("
        "document.querySelector('#single figure img').style.transform)?.[1])"
    )
    for dx, dy in ((1, 0), (0, 1)):
        pinch(range(10, 41, 3), dx, dy)
        until(page, f"{scale} > 3")
        pinch(range(40, 4, -3), dx, dy)
        until(page, f"{scale} === 1")
    assert page.evaluate("visualViewport.scale") == 1  # the page itself is not zoomed


def test_a_merge_on_another_page_takes_its_flags_out_of_this_one(open_page, run, address):
    page, other = open_page(address), open_page(address)
    read = "document.querySelector('#counts').textContent"
    other.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    before = other.evaluate(read)
    labels = run.predictions().labels
    body = {"index": 0, "action": "merge", "target": 1, "reviewer": "ana"}
    page.evaluate(
        """(body) => fetch("api/class", {
          method: "POST", body: JSON.stringify(body),
          headers: { "Content-Type": "application/json" },
        })""",
        body,
    )
    until(other, f"{read} !== {before!r}")
    pair = {labels.names[0], labels.names[1]}
    texts = other.locator("#list .card").all_inner_texts()
    assert texts
    assert not any(all(name in text for name in pair) for text in texts)


def test_a_page_does_not_read_its_list_again_at_its_own_merge(open_page, address):
    page = open_page(address)
    page.locator("#as-classes").click()
    page.locator(".class-table button", has_text="ship").click()
    page.locator("#class-merge").click()
    page.locator("#picker-list [role=option]", has_text="dog").click()
    page.wait_for_selector("#class-undo")
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    with page.expect_response("**/api/changes*"):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    settle(page)
    assert not [url for url in requests if "api/samples" in url]
