"""What the review page shows in a browser: names, estimates, pictures, groups."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from browsers import needs_chromium
from review_pages import active, settle, until, wait_until
from review_runs import (
    HOSTILE_CLASS,
    HOSTILE_FILE,
    finish,
    hostile_run,
    image_run,
    list_decisions,
    memory_run,
    text_data,
)
from uqled.data import load
from uqled.detect.find import find_label_errors
from uqled.review.decisions import Decisions
from uqled.review.serve import serve_review

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytest.importorskip("playwright.sync_api")
LINES = """(one) => one.offsetHeight / parseFloat(getComputedStyle(one).lineHeight)"""
pytestmark = needs_chromium


def test_hostile_names_are_shown_as_they_are(open_page, tmp_path):
    run = hostile_run(tmp_path)
    with serve_review(run, port=0, method="argmax") as address:
        page = open_page(address)
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
    cells = [row.locator("th, td").all_inner_texts() for row in rows]
    return [[" ".join(text.split()) for text in row] for row in cells]  # a note has its own line


def expected_estimates(run, decided):
    """The same from detection with these verdicts; `decided` are index: action number."""
    N = len(run.predictions())
    actions = np.zeros(N, np.int8)
    actions[list(decided)] = list(decided.values())
    verdicts = (actions, np.full(N, -1)) if decided else None
    answer = find_label_errors(run.predictions(), verdicts=verdicts).answer
    dropped = int(np.sum(actions == 3))

    def row(name, one, row_format, subtracted=0, confidence=0.8):
        values = [row_format(value - subtracted) for value in (one.value, one.low, one.high)]
        note = "" if confidence == 0.8 else f" ({confidence:.0%} interval)"  # 80 % is the column's
        return [name, values[0], f"{values[1]} to {values[2]}{note}"]

    def whole_number(value):
        return f"{int(value + 0.5):,}"

    def share(value):
        return f"{int(100 * value + 0.5)}%" if not 0.99 < value < 1 else ">99%"

    return [
        row(f"Of {N} labels", answer.n_errors, whole_number),
        row(
            f"Of {answer.n_flagged} flags",
            answer.precision,
            share,
            confidence=answer.precision_confidence,
        ),
        row("Not decided yet", answer.n_errors, whole_number, subtracted=dropped),
    ]


def test_the_estimate_and_the_list_follow_the_decisions(open_page, address, run):
    page = open_page(address)
    page.locator("#estimates-box summary").click()  # statistics are folded away
    before = shown_estimates(page, after="before any decision")
    assert before == expected_estimates(run, {})
    assert page.locator(".estimates thead th").all_inner_texts() == ["about", "80% interval"]
    verdicts = {}
    for key, action in zip("qeqeqeqeqe", [1, 3] * 5, strict=True):
        verdicts[active(page)] = action
        page.keyboard.press(key)
    after = shown_estimates(page, after="after 10 decisions")
    assert after == expected_estimates(run, verdicts) != before
    listed_samples = [int(card.get_attribute("data-index")) for card in page.locator(".card").all()]
    assert listed_samples[:10] == list(verdicts)  # what is decided stays where it is
    actions = np.zeros(len(run.predictions()), np.int8)
    actions[list(verdicts)] = list(verdicts.values())
    current = find_label_errors(run.predictions(), verdicts=(actions, np.full(len(actions), -1)))
    undecided = [i for i in current.ranked.tolist() if i not in verdicts]
    active_index = active(page)
    assert (
        listed_samples[10:]
        == [active_index, *(i for i in undecided if i != active_index)][: len(listed_samples) - 10]
    )
    assert "after 10 decisions" in page.locator("#order-note").inner_text()
    assert f"{after[0][1]} wrong labels in all" in page.locator("#order-note").inner_text()

    other = undecided[-1]
    with Decisions.of(run.predictions()) as decisions:  # another person's count as much
        decisions.decide([(other, "keep", None)], reviewer="bo")
    more = shown_estimates(page, after="after 11 decisions")
    assert more == expected_estimates(run, verdicts | {other: 1})
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


def test_a_hundred_at_random_then_many_at_once(open_page, tmp_path):
    run = image_run(tmp_path, N=900)
    truth, given_labels = run.predictions().truth, run.predictions().labels.codes
    with serve_review(run, port=0) as address:
        page = open_page(address)
        page.locator("#estimates-box summary").click()
        page.locator("#hundred").click()
        until(page, "document.querySelector('#where').textContent.endsWith(' of 100')")
        assert page.locator("[name=order]").input_value() == "hundred"
        assert not page.locator("#bulk-button").is_visible()  # nobody has looked at anything
        for _ in range(25):
            page.keyboard.press("q" if truth[active(page)] == given_labels[active(page)] else "w")
        until(page, "document.querySelector('#hundred').textContent.endsWith('75 left')")
        page.reload()  # the queue goes on where it was
        until(page, "document.querySelector('#where').textContent.endsWith(' of 75')")
        page.locator("#clear").click()
        page.locator("#bulk-button").click()
        page.wait_for_selector("#bulk[open]")
        offer = page.locator("#bulk-offers li").last
        n = int(offer.locator("button").inner_text().split()[2])
        for one in page.locator("#bulk-offers li").all():  # each in one line, beside its button
            button, note = one.locator("button").bounding_box(), one.locator(".note")
            assert note.evaluate(LINES) < 2, note.inner_text()
            assert abs(note.bounding_box()["y"] - button["y"]) < button["height"]
        promises = page.evaluate(
            "fetch('api/estimates').then((answer) => answer.json())"
            ".then(({ estimates }) => estimates.bulk)"
        )
        assert promises[-1]["n"] == n
        for one, words in zip(
            promises, page.locator("#bulk-offers .note").all_inner_texts(), strict=True
        ):
            most = one["n"] - int(one["errors"]["low"])
            labels = "label" if most == 1 else "labels"
            expected = (
                f"{one['errors']['value']:.0f} errors expected, at most {most} right {labels}"
            )
            assert words == expected
        offer.locator("button").click()
        wait_until(lambda: len(list_decisions(run)) == 25 + n, "accepting")
        page.keyboard.press("Control+z")
        wait_until(lambda: len(list_decisions(run)) == 25, "one undo")


def test_the_filters_count_what_is_listed_now(open_page, address):
    page = open_page(address)

    def read_counts():
        settle(page)
        n_listed = int(page.locator("#counts .decided").inner_text().split()[2])
        chosen_method = page.locator("[name=method]").evaluate(
            "(one) => one.selectedOptions[0].text"
        )
        reasons = page.locator("[name=reason] option").all_text_contents()[1:]
        return (
            n_listed,
            int(chosen_method.split("(")[1][:-1]),
            sum(int(t.split("(")[1][:-1]) for t in reasons),
        )

    first = read_counts()
    for _ in range(12):
        page.keyboard.press("q")
    until(page, "document.querySelector('#estimates-basis').textContent.includes('12 decisions')")
    counts = read_counts()
    assert len(set(first)) == len(set(counts)) == 1
    assert counts != first


def test_an_audit_that_is_done_is_not_gone_on_with(open_page, run, address):
    page = open_page(address)
    page.locator("#estimates-box summary").click()
    page.locator("#audit").click()
    until(page, "document.querySelector('#audit').textContent.includes(': 40 left')")
    with Decisions(run.path / "decisions.sqlite") as decisions:
        decisions.decide([(i, "keep", None) for i in range(200)], reviewer="bo")
    until(page, "document.querySelector('#audit-note').textContent.includes('40 of 40 judged')")
    assert page.locator("#audit").inner_text() == "Show the audit\u2019s samples"


def test_the_page_says_when_everything_is_decided(open_page, run, address):
    with Decisions.of(run.predictions()) as decisions:
        decisions.decide([(index, "keep", None) for index in range(200)], reviewer="ana")
    page = open_page(address)
    until(page, "document.querySelector('#empty').textContent.startsWith('Every flag is decided')")
    page.locator("#previous").click()
    page.wait_for_selector(".card.keep")


def test_a_picture_is_shown_in_its_own_resolution_with_zoom(open_page, tmp_path):
    rng = np.random.default_rng(0)
    for k, name in enumerate(("cat", "dog")):
        (tmp_path / "data" / name).mkdir(parents=True)
        for i in range(20):
            pixels = rng.integers(0, 90, (900, 600, 3)).astype(np.uint8)  # a portrait
            pixels[..., k] += 120
            Image.fromarray(pixels).save(tmp_path / "data" / name / f"{i:02d}.jpg", quality=50)
    data = load(tmp_path / "data", image_size=(32, 48), cache=False)  # what the model sees
    run = finish(tmp_path / "run", data, wrong=0.4)
    Image.fromarray(pixels).save(tmp_path / "data" / "cat" / "<b>new.jpg")  # since the run
    with serve_review(run, port=0, method="argmax") as address:
        page = open_page(address)
        notes = page.locator("#source-notes")
        assert "1 file is new and not part of this run: 'cat/<b>new.jpg'." in notes.inner_text()
        notes.locator("button").click()
        assert not notes.is_visible()
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


def test_groups_are_decided_with_one_key_and_taken_back_with_one(open_page, address, run):
    page = open_page(address)
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
    wait_until(lambda: len(list_decisions(run)) == n - 1, "deciding the group")
    decisions = list_decisions(run)
    assert {action for action, _ in decisions.values()} == {"relabel"}
    assert len({label for _, label in decisions.values()}) == 1  # what the question says
    assert all(label != labels.codes[i] for i, (_, label) in decisions.items())
    until(page, "document.querySelector('#toast').textContent.startsWith('Saved')")
    page.keyboard.press("Control+z")  # the whole group, and nothing else
    wait_until(lambda: list_decisions(run) == {}, "taking it back")
    until(page, f"document.querySelectorAll('#groups .tile').length === {n}")
    page.keyboard.press("q")
    wait_until(lambda: len(list_decisions(run)) == n, "keeping the group")
    page.keyboard.press("Escape")
    page.wait_for_selector("#list:not([hidden]) .card")
    assert page.locator("#counts").inner_text().startswith(str(n))


def test_narrow_dark_and_with_texts(open_page, tmp_path):
    data = text_data()
    with serve_review(memory_run(tmp_path, data), data=data, port=0) as address:
        page = open_page(
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


def test_a_screen_reader_finds_its_way(open_page, address, run, ranking):
    page = open_page(address)
    tree = page.locator("body").aria_snapshot()
    names = run.predictions().labels.names
    label = names[run.predictions().labels.codes[ranking[0]]]
    assert f"given {label}" in tree
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
