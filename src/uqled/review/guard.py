"""Who may talk to the server: only a browser that was given the address.

The address holds a random token as its first part, so that other users of the machine and other
web sites do not know it. A web site that learnt it could still not use it: requests must name this
machine as their host (no name of the site's own that leads here) and this page as their origin.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


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
        headers = {name.decode("latin-1"): v.decode("latin-1") for name, v in scope["headers"]}

        async def sending(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                there = {name.lower() for name, _ in message.get("headers", [])}
                extra = _HEADERS | (
                    {} if b"cache-control" in there else {"Cache-Control": "no-store"}
                )
                pairs = [(k.lower().encode(), v.encode()) for k, v in extra.items()]
                message = {**message, "headers": [*message.get("headers", []), *pairs]}
            await send(message)

        _, token, path = ("/" + scope["path"].lstrip("/") + "/").split("/", 2)
        if not self._is_this_machine(headers.get("host", "")):
            await _refuse(sending, 421, "this host name is not served here")
        elif not secrets.compare_digest(token.encode("utf-8", "surrogatepass"), self._token):
            await _refuse(sending, 403, "the address lacks the token: use the one that was printed")
        elif not _is_same_origin(scope["method"], headers):
            await _refuse(sending, 403, "the request comes from another page")
        elif not path and not scope["path"].endswith("/"):  # what the page asks for is beside it
            await _refuse(sending, 404, "the address ends with a slash")
        else:
            inner = "/" + path.removesuffix("/")
            await self._app({**scope, "path": inner, "raw_path": inner.encode()}, receive, sending)

    def _is_this_machine(self, host: str) -> bool:
        """A name of this machine, or a number: only names can be made to lead here by others."""
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        name = name.strip("[]").lower()
        if name and name in ("localhost", self._host):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _is_same_origin(method: str, headers: dict[str, str]) -> bool:
    """Browsers say where a request comes from; one that writes must say so."""
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{headers['host']}":
        return False
    if method not in ("GET", "HEAD") and origin is None:
        return False
    site, mode = headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")
    return site in (None, "same-origin", "none") or (mode == "navigate" and method == "GET")


async def _refuse(send: Send, status: int, why: str) -> None:
    kind = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": kind})
    await send({"type": "http.response.body", "body": f"refused: {why}\n".encode()})
