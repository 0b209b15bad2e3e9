"""Access control: only a browser that was given the address is served.

The address holds a random token as its first part, so that other users of the machine and other
web sites do not know it. A web site that learnt it could still not use it: requests must name this
machine as their host (no name of the site's own that leads here) and this page as their origin.

Every answer, refusals included, forbids scripts that are not the page's own.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Headers of every answer.
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        b"require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"permissions-policy",
        b"camera=(), microphone=(), geolocation=(), display-capture=(), clipboard-read=(), "
        b"usb=(), serial=(), hid=(), bluetooth=(), midi=(), payment=()",
    ),
    (b"cache-control", b"no-store"),
]
_LARGEST_HEAD = 2**15  # bytes, cookies of all other servers on this machine included
#: Headers that decide about access.
_SINGLE_HEADERS = (
    "host",
    "origin",
    "content-type",
    "sec-fetch-site",
    "sec-fetch-mode",
    "sec-fetch-dest",
)
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?")


def new_token() -> str:
    return secrets.token_urlsafe(24)


class Guard:
    """Lets a request through to `app` if it has the token and comes from the page itself."""

    def __init__(self, app: App, token: str, host: str) -> None:
        self._app = app
        self._token = token.encode()
        self._host = host.lower()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        pairs = [(name.decode("latin-1"), v.decode("latin-1")) for name, v in scope["headers"]]
        headers = dict(pairs)

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer_headers = list(message.get("headers", []))
                header_names = {name.lower() for name, _ in answer_headers}
                extra = [pair for pair in HEADERS if pair[0] not in header_names]
                message = {**message, "headers": [*answer_headers, *extra]}
            await send(message)

        # The raw path: none of the page's addresses needs decoding.
        target: bytes = scope["raw_path"]
        token, slash, path = target.removeprefix(b"/").partition(b"/")
        names = [name for name, _ in pairs]
        size = len(scope["method"]) + len(target) + len(scope["query_string"])
        if size + sum(len(name) + len(value) for name, value in pairs) > _LARGEST_HEAD:
            await _refuse(sending, 431, "the head of the request is too long")
        elif any(names.count(name) > 1 for name in _SINGLE_HEADERS):
            await _refuse(sending, 400, "a header is there twice")
        elif not self._is_this_machine(headers.get("host", "")):
            await _refuse(sending, 421, "this host name is not served here")
        elif not secrets.compare_digest(token, self._token) or not target.startswith(b"/"):
            await _refuse(sending, 403, "the address lacks the token: use the one that was printed")
        elif not _is_same_origin(scope["method"], headers):
            await _refuse(sending, 403, "the request comes from another page")
        elif not slash or b"%" in path:  # the page's requests are relative to it, hence the slash
            await _refuse(sending, 404, "there is nothing at this address")
        else:
            inner = b"/" + path
            inner_scope = {**scope, "path": inner.decode("ascii"), "raw_path": inner}
            await self._app(inner_scope, receive, sending)

    def _is_this_machine(self, host: str) -> bool:
        """A name of this machine, or a number.

        A site can make a name of its own lead here, and would then be this page's origin in the
        eyes of a browser. It cannot do that with a number: whatever number the browser shows is
        where it went. So every number is one of ours, also those that only a router or a container
        knows us by.
        """
        match = _HOST.fullmatch(host.lower())
        if match is None:
            return False
        name = match[1] or match[2]
        if name in ("localhost", self._host):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _is_same_origin(method: str, headers: dict[str, str]) -> bool:
    """Whether the request comes from the page itself: browsers state the origin, and a request that
    writes must state it."""
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{headers['host']}":
        return False
    if method not in ("GET", "HEAD") and origin is None:
        return False
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    # From elsewhere, a link to the page may be followed: the printed address is one.
    follows_link = mode == "navigate" and headers.get("sec-fetch-dest") in (None, "document")
    return site in (None, "same-origin", "none") or (follows_link and method == "GET")


async def _refuse(send: Send, status: int, why: str) -> None:
    """Refuse, and close the connection: one that stays open knows the token."""
    kind = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": kind})
    await send({"type": "http.response.body", "body": f"refused: {why}\n".encode()})
