"""Data that is HTML, script or an address, on every part of the review page, in a real browser."""

from __future__ import annotations

import http.server
import json
import threading
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from browsers import needs_chromium
from review_runs import memory_run
from uqled.data import Dataset
from uqled.review.decisions import Decisions
from uqled.review.serve import serve_review

pytest.importorskip("uvicorn")
pytest.importorskip("starlette")
pytestmark = needs_chromium

PAGE_TIMEOUT = 15_000  # milliseconds that the page may take for anything

#: Each would set `window.hacked` where it were taken for more than text.
PAYLOADS = [
    "<script>hacked=1</script>",
    "<img src=x onerror=hacked=1>",
    "<svg onload=hacked=1>",
    "</option></select><iframe srcdoc='<script>parent.hacked=1</script>'>",
    '"><script>hacked=1</script>',
    "' onfocus='hacked=1' autofocus='",
    "javascript:hacked=1",
    "</title><script>hacked=1</script>",
    "{{constructor.constructor('hacked=1')()}}",
    "${hacked=1}",
    "<style>@import 'http://127.0.0.1:1/x'</style>",
    "<a href=javascript:hacked=1 autofocus>x</a>",
    "__proto__",
    "</script><script>hacked=1//",
]
K = len(PAYLOADS)

#: What the page never holds more of than its own, whatever the data says.
FOREIGN_ADDRESSES = (
    "iframe, object, embed, form:not(#filters), style, base, meta[http-equiv], svg, a:not(.skip)"
)
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => violations.push(event.blockedURI));
localStorage.setItem("helped", "yes");
"""


def hostile_texts(N=84):
    codes = np.arange(N) % K
    texts = np.array([f"{PAYLOADS[(k + 1) % K]} text {i}" for i, k in enumerate(codes)])
    ids = np.array([f"{PAYLOADS[(k + 2) % K]}#{i}" for i, k in enumerate(codes)], dtype=object)
    return Dataset.from_arrays(texts, np.array(PAYLOADS)[codes], ids=ids)


def hostile_table(N=84):
    codes = np.arange(N) % K
    frame = pd.DataFrame({PAYLOADS[0]: codes * 1.5, PAYLOADS[1]: np.array(PAYLOADS)[codes]})
    return Dataset.from_arrays(frame, np.array(PAYLOADS)[codes])


@contextmanager
def visit(browser, address, script=WATCH):
    """A page on which a dialog or an error fails the test."""
    context = browser.new_context()
    context.set_default_timeout(PAGE_TIMEOUT)
    context.add_init_script(script)
    page, problems = context.new_page(), []
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    page.wait_for_selector(".card, #empty:not([hidden])")
    try:
        yield page
        assert problems == []
    finally:
        context.close()


def check(page, state):
    """Nothing of the data became more than text."""
    content = page.evaluate(
        f"""() => ({{
            hacked: typeof hacked, violations, polluted: Object.keys(Object.prototype),
            scripts: document.scripts.length,
            foreign: document.querySelectorAll("{FOREIGN_ADDRESSES}").length,
            handlers: [...document.querySelectorAll("*")].filter((one) =>
                one.getAttributeNames().some((name) => name.startsWith("on"))).length,
            images: [...document.images].filter((one) => one.getAttribute("src") === "x").length,
        }})"""
    )
    assert content == {
        "hacked": "undefined", "violations": [], "polluted": [], "scripts": 1, "foreign": 0,
        "handlers": 0, "images": 0,
    }, state  # fmt: skip


@pytest.mark.parametrize("make", [hostile_texts, hostile_table])
def test_hostile_data_is_text_in_every_state_of_the_page(browser, tmp_path, make):
    data = make()
    folder = tmp_path / "<script>hacked=1<"
    folder.mkdir()
    run = memory_run(folder, data)
    run = run.path.rename(folder / "<img src=x onerror=hacked=1>")
    reviewer = PAYLOADS[1]
    with serve_review(run, data=data, port=0, reviewer=reviewer, method="argmax") as address:
        place = "#" + "&".join(f"{name}=<script>hacked=1</script>" for name in ("state", "given",
                               "order", "method", "view", "from", "sample"))  # fmt: skip
        with visit(browser, address + place) as page:
            press = page.keyboard.press
            check(page, "from an address that was made for it")
            page.goto(address)
            page.wait_for_selector(".card")
            text = page.locator(".card").first.inner_text()
            assert any(payload in text for payload in PAYLOADS)
            assert "<img src=x onerror=hacked=1>" in page.locator("h1").inner_text()
            check(page, "the grid")
            for name in ("reason", "method"):
                options = page.locator(f"select[name={name}] option")
                assert options.count() > 1
            press("Enter")
            page.wait_for_selector("#single:not([hidden]) h2")
            check(page, "one by one")
            press("w")  # accept: "now <class>", the toast, and "by <reviewer>"
            wait_for(page, "document.querySelectorAll('.card.relabel').length === 1")
            press("ArrowLeft")
            wait_for(page, "document.querySelector('#single .by') !== null")
            assert reviewer in page.locator("#single .by").inner_text()
            check(page, "decided")
            press("Control+z")
            wait_for(page, "document.querySelectorAll('.card.relabel').length === 0")
            check(page, "taken back")
            press("c")
            page.wait_for_selector("#picker[open]")
            assert page.locator("#picker-list li").count() == K
            page.keyboard.type("<img")
            assert PAYLOADS[1] in page.locator("#picker-list li").first.inner_text()
            check(page, "choosing a class")
            press("Enter")
            press("Escape")
            press("?")
            page.wait_for_selector("#keys[open]")
            assert page.locator("#keys").is_visible()
            check(page, "the help")
            press("Escape")
            page.locator("#pairs button").first.click()
            wait_for(page, "!document.getElementById('filtered').hidden")
            check(page, "filtered by a pair")
            page.locator("[name=given]").click()
            page.wait_for_selector("#picker[open]")
            values = page.locator("#picker-list li").all_inner_texts()
            assert any(payload in value for payload in PAYLOADS for value in values)
            check(page, "choosing a class to filter by")
            press("Escape")
            page.locator("#clear").click()
            wait_for(page, "document.getElementById('filtered').hidden")
            index = int(page.locator(".card.active").get_attribute("data-index"))
            with Decisions(run / "decisions.sqlite") as other_file:
                other_file.decide([(index, "drop", None)], reviewer=PAYLOADS[4])
            press("q")
            page.wait_for_selector("#conflict[open]")
            assert PAYLOADS[4] in page.locator("#conflict-rows").inner_text()
            check(page, "a conflict")
            page.locator("#theirs").click()
            page.locator("#reviewer").fill(PAYLOADS[0])
            page.locator("#reviewer").press("Tab")
            page.reload()
            page.wait_for_selector(".card")
            assert page.locator("#reviewer").input_value() == PAYLOADS[0]
            check(page, "with another name, after a reload")
            page.context.set_offline(True)
            press("e")
            page.wait_for_selector("#trouble:not([hidden])")
            check(page, "without the server")


def wait_for(page, expression):
    """Until JavaScript is true; Playwright's own way needs `eval`, which the page forbids."""
    for _ in range(PAGE_TIMEOUT // 20):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(20)
    raise AssertionError(expression)


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    data = hostile_texts()
    run = memory_run(tmp_path_factory.mktemp("plain"), data)
    with serve_review(run, data=data, port=0) as server:
        yield server


ATTEMPTS = {
    "markup": "document.body.innerHTML = '<b>x</b>'",
    "more markup": "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')",
    "a frame": "{ const f = document.createElement('iframe'); f.srcdoc = '<b>x</b>'; }",
    "eval": "eval('window.hacked = 1')",
    "a function": "new Function('window.hacked = 1')()",
    "a handler": "{ const b = document.body; b.setAttribute('onclick', 'window.hacked = 1');"
    " b.click(); }",
    "a script": "{ const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
    " document.body.append(s); }",
    "a foreign script": "{ const s = document.createElement('script');"
    " s.src = 'http://127.0.0.1:1/x.js'; document.body.append(s); }",
    "a policy": "trustedTypes.createPolicy('mine', { createHTML: (text) => text })",
}


def test_the_browser_itself_refuses_scripts_and_markup(browser, address):
    """Even where a mistake of the page let data through."""
    with visit(browser, address) as page:
        for name, attempt in ATTEMPTS.items():
            # Later, because what the test itself asks for is exempt from the page's rules.
            blocked = page.evaluate(
                f"""() => new Promise((resolve) => setTimeout(() => {{
                    try {{ {attempt}; resolve(null); }} catch (error) {{ resolve(error.name); }}
                }}, 0))"""
            )
            page.wait_for_timeout(50)
            assert page.evaluate("typeof window.hacked") == "undefined", name
            violations = page.evaluate("violations.splice(0)")
            assert blocked in ("TypeError", "EvalError") or violations, name


def test_no_other_place_learns_the_address(browser, address):
    """By a link, a picture, a form, a window, or a request."""
    requests = []

    class Listener(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            requests.append((self.path, dict(self.headers)))
            self.send_response(200)
            self.end_headers()

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    elsewhere = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        with visit(browser, address) as page:
            for way in (
                f"fetch('{elsewhere}/fetch', {{ mode: 'no-cors' }}).catch(() => 0)",
                f"navigator.sendBeacon('{elsewhere}/beacon', 'x')",
                f"new Image().src = '{elsewhere}/image'",
                f"{{ const f = document.createElement('form'); f.action = '{elsewhere}/form';"
                " f.method = 'post'; document.body.append(f); f.submit(); }",
            ):
                page.evaluate(f"() => {{ {way} }}")
                page.wait_for_timeout(50)
            assert requests == []  # nothing leaves the page by itself
            with page.context.expect_page() as new_page:
                page.evaluate(f"() => {{ window.open('{elsewhere}/window', '_blank') }}")
            new_page.value.wait_for_load_state()
            assert new_page.value.evaluate("[document.referrer, window.opener]") == ["", None]
            page.evaluate(f"() => {{ location.href = '{elsewhere}/link' }}")
            page.wait_for_url(f"{elsewhere}/link")
            assert page.evaluate("document.referrer") == ""
    finally:
        server.shutdown()
        server.server_close()
    requests = [one for one in requests if one[0] != "/favicon.ico"]  # of the other pages
    assert [path for path, _ in requests] == ["/window", "/link"]
    token = address.rstrip("/").rsplit("/", 1)[1]
    for _, headers in requests:
        assert "Referer" not in headers
        assert token not in json.dumps(headers)
