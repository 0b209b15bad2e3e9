"""Limits connections to the page: their number, and the time each has to send a request.

uvicorn closes a connection that is idle between two requests, but keeps one that never finishes its
first request: a thousand of those would lock everybody out. Here each connection has some seconds
for the head of a request and some for its body. If there are too many, the one that has been silent
longest is closed, connections that know the token last: a person's browser always gets in.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from uqled.review.server.guard import HEADERS

HEAD_SECONDS = 10.0
BODY_SECONDS = 30.0  # bodies are small: a page of decisions is a few kilobytes


class WatchedConnection(H11Protocol):
    """One connection; all of a server are in `self.connections`."""

    most = 100
    """The most connections at a time."""

    _timer: asyncio.TimerHandle | None = None
    _phase: tuple[Any, Any] | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, with the headers of every other answer."""
        headers = [*HEADERS, (b"content-type", b"text/plain"), (b"connection", b"close")]
        answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        try:
            for event in (answer, h11.Data(data=msg.encode()), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # answered before the request was complete
            self.transport.abort()
        else:
            self.transport.close()

    def drop(self) -> None:
        """Hang up at once."""
        self._stop_timer()
        self.connections.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        """Begin to count the seconds of what is expected now: a head, or a body."""
        phase = self.conn.their_state, self.cycle
        if phase == self._phase or self.transport.is_closing():
            return
        self._stop_timer()
        self._phase, self._since = phase, self.loop.time()
        seconds = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}.get(phase[0])
        if seconds is not None:
            self._timer = self.loop.call_later(seconds, self.drop)

    def _make_room(self) -> None:
        """Drop the one that has been silent longest; those that are being answered stay.

        Refused requests end their connection, so that one which had an answer knows the token.
        """
        silent = [
            one
            for one in self.connections
            if isinstance(one, WatchedConnection)
            and one is not self
            and (one.cycle is None or one.cycle.response_complete)
        ]
        min(silent, key=lambda one: (one.cycle is not None, one._since), default=self).drop()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def watch_connections(most: int) -> type[WatchedConnection]:
    """The protocol class for a server with at most this many connections."""
    return type("LimitedConnection", (WatchedConnection,), {"most": most})
