"""What the page asks for, and what it gets. Every decision is on the disk before its answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from uqled import arrays
from uqled.data.dataset import Dataset
from uqled.detect.reasons import REASONS
from uqled.detect.result import LabelErrors
from uqled.errors import FileError, InputError
from uqled.limits import get_limit
from uqled.review.advice import WORTH, advice
from uqled.review.decisions import ConflictError, Decisions
from uqled.review.listing import ORDERS, STATES, Asked, Flags, Listing, Standing, standing_of
from uqled.review.outlook import Outlooks
from uqled.review.samples import Pictures, content, preview
from uqled.storage.run import Predictions

_LARGEST_PAGE = 500  # samples
_MANY_CHANGES = 500  # after which a page loads its list anew
_DAY = 86_400  # seconds

_FILTERS = ("given", "suggested", "reason", "order")  # of all undecided ones
_STATIC = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Room:
    """A run under review: what all requests share."""

    def __init__(
        self,
        predictions: Predictions,
        errors: LabelErrors,
        decisions: Decisions,
        data: Dataset | None,
        *,
        reviewer: str,
    ) -> None:
        self.predictions = predictions
        self.decisions = decisions
        self.data = data
        self.reviewer = reviewer
        self.listing = Listing(errors, predictions)
        self.standing = Standing(decisions, len(predictions))
        self.outlooks = Outlooks(errors.estimate, predictions.labels.codes, self.standing)
        self.pictures = Pictures(data) if data is not None and data.kind == "images" else None
        self._advice: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._lock = threading.Lock()

    @property
    def n_samples(self) -> int:
        return len(self.predictions)

    def progress(self, flags: Flags, worth: float) -> dict[str, Any]:
        """Counts and advice; the same until somebody decides."""
        key = flags.method, worth, self.standing.number
        with self._lock:
            if key not in self._advice:
                found = asdict(advice(flags.outcomes(self.standing), worth=worth))
                if len(self._advice) > 64:
                    self._advice.clear()
                self._advice[key] = {"counts": flags.counts(self.standing), "advice": found}
            return self._advice[key] | {"number": self.standing.number}


def application(room: Room) -> Starlette:
    """The page and what it asks for; `Guard` goes around it."""
    pages = files("uqled.review") / "templates"
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    page = environment.from_string((pages / "page.html").read_text("utf-8")).render(
        name=room.predictions.path.resolve().name
    )
    static = {
        item.name: (item.read_bytes(), _STATIC[item.name.rsplit(".", 1)[1]])
        for item in (files("uqled.review") / "static").iterdir()
    }

    def show_page(_: Request) -> Response:
        return Response(page, media_type="text/html")

    def show_static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in static:
            raise HTTPException(404)
        body, kind = static[name]
        return Response(body, media_type=kind, headers={"Cache-Control": "no-cache"})

    def show_thumbnail(request: Request) -> Response:
        return _picture(room, request, whole=False)

    def show_picture(request: Request) -> Response:
        return _picture(room, request, whole=True)

    routes = [
        Route("/", show_page),
        Route("/static/{name}", show_static),
        Route("/thumbnail/{index}", show_thumbnail),
        Route("/picture/{index}", show_picture),
        Route("/api/start", _answering(room, _start)),
        Route("/api/samples", _answering(room, _samples)),
        Route("/api/sample/{index}", _answering(room, _sample)),
        Route("/api/changes", _answering(room, _changes)),
        Route("/api/outlook", _answering(room, _outlook)),
        Route("/api/decide", _writing(room, _decide), methods=["POST"]),
        Route("/api/decide-all", _writing(room, _decide_all), methods=["POST"]),
        Route("/api/undo", _writing(room, _undo), methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error})
    app.router.redirect_slashes = False  # it would lead to an address without the token
    return app


def _start(room: Room, request: Request) -> Any:
    """What stays the same for a method."""
    flags = _flags(room, request.query_params.get("method"))
    labels, data = room.predictions.labels, room.data
    return {
        "classes": list(labels.names),
        "digits": digit_keys(list(labels.names)),
        "kind": "none" if data is None else data.kind,
        "size": None if room.pictures is None else list(room.data.inputs.shape[1:3]),  # type: ignore[union-attr]
        "samples": room.n_samples,
        "methods": room.listing.methods,
        "headline": room.listing.headline,
        "method": flags.method,
        "reasons": list(REASONS),
        "reviewer": room.reviewer,
        "overview": flags.overview,
        **room.progress(flags, _worth(request.query_params.get("worth"))),
    }


def _samples(room: Room, request: Request) -> Any:
    """A page of the list."""
    query = request.query_params
    flags = _flags(room, query.get("method"))
    backwards = "before" in query
    room.standing.refresh()
    asked = _asked(room, flags, query)
    start = query.get("before") if backwards else query.get("from", "0")
    found = flags.page(
        asked,
        room.standing,
        start=_number(start, "before" if backwards else "from", 1 << 62) or 0,
        size=max(1, _number(query.get("size", "100"), "size", _LARGEST_PAGE + 1) or 0),
        backwards=backwards,
    )
    rows = flags.rows(found, room.standing)
    for row in rows:
        wrong = room.outlooks.probability(row["index"])
        row["wrong"] = None if wrong is None else round(wrong, 4)
        row["preview"] = preview(room.data, row["index"])
    return {
        "samples": rows,
        "before": found.before,
        "total": found.total,
        "undecided": found.undecided,
        **room.progress(flags, _worth(query.get("worth"))),
    }


def _sample(room: Room, request: Request) -> Any:
    """A text or a row at its full length."""
    index = _index(room, request)
    return {"index": index, "content": content(room.data, index)}


def _changes(room: Room, request: Request) -> Any:
    """What somebody decided since the page last asked."""
    query = request.query_params
    after = _number(query.get("after", "0"), "after", 1 << 62) or 0
    room.standing.refresh()
    changes = room.decisions.history(after)
    changed = {change.index for change in changes}
    many = len(changed) > _MANY_CHANGES
    return {
        "many": many,
        "changed": [] if many else [_row(room, index) for index in sorted(changed)],
        **room.progress(_flags(room, query.get("method")), _worth(query.get("worth"))),
    }


def _outlook(room: Room, request: Request) -> Any:
    """How many labels are probably wrong; apart from the rest, because it may take a second."""
    flags = _flags(room, request.query_params.get("method"))
    room.standing.refresh()
    found = room.outlooks.of(flags)
    return {"outlook": None if found is None else asdict(found)}


def _decide(room: Room, body: dict[str, Any]) -> Any:
    items, seen = body.get("items"), body.get("seen")
    if not isinstance(items, list) or not isinstance(seen, dict) or not items:
        raise InputError("items", "or seen are missing", "Send both")
    if not all(isinstance(item, list) and len(item) == 3 for item in items):
        raise InputError("items", "are not [sample, action, class] each", "Send such a list")
    flags, worth = _flags(room, body.get("method")), _worth(body.get("worth"))
    decided = room.decisions.decide(
        [_as_keep(room, *item) for item in items],
        reviewer=_text(body, "reviewer"),
        seen={
            _number(index, "seen", 1 << 62) or 0: _whole(version, "seen")
            for index, version in seen.items()
        },
        tab=_text(body, "tab"),
    )
    room.standing.refresh()
    return {
        "decided": [_row(room, decision.index) for decision in decided],
        **room.progress(flags, worth),
    }


def _decide_all(room: Room, body: dict[str, Any]) -> Any:
    """Decide all the undecided that fit the filters, if they are as many as the reviewer saw."""
    flags, worth = _flags(room, body.get("method")), _worth(body.get("worth"))
    if body.get("action") not in ("keep", "accept", "drop"):
        raise InputError("action", f"is {body.get('action')!r:.40}", "Pass keep, accept or drop")
    asked = replace(
        _asked(room, flags, {name: _text(body, name) for name in _FILTERS if name in body}),
        state="undecided",
    )
    room.standing.refresh()
    ranks = np.flatnonzero(flags.fitting(asked, room.standing))
    if len(ranks) != _whole(body.get("number"), "number"):
        raise InputError(
            "number", f"of undecided flags is {len(ranks)} by now", "Look at the list again"
        )
    items, latest = [], room.standing.latest
    for rank in ranks.tolist():
        index, suggested = int(flags.indices[rank]), int(flags.suggested[rank])
        action = "relabel" if body["action"] == "accept" else body["action"]
        items.append(_as_keep(room, index, action, suggested if action == "relabel" else None))
    seen = {index: latest[index].version for index, _, _ in items if index in latest}
    decided = room.decisions.decide(
        items, reviewer=_text(body, "reviewer"), seen=seen, tab=_text(body, "tab")
    )
    room.standing.refresh()
    return {"number_decided": len(decided), **room.progress(flags, worth)}


def _undo(room: Room, body: dict[str, Any]) -> Any:
    flags, worth = _flags(room, body.get("method")), _worth(body.get("worth"))
    undone = room.decisions.undo(_text(body, "reviewer"), tab=_text(body, "tab"))
    room.standing.refresh()
    return {
        "undone": [_row(room, index) for index in undone[:_MANY_CHANGES]],
        "number_undone": len(undone),
        **room.progress(flags, worth),
    }


def digit_keys(names: list[str]) -> dict[str, int]:
    """The class that each digit stands for: its own name, or else its place in the order.

    >>> digit_keys(["cat", "dog"]), digit_keys(["7", "8"])
    ({'1': 0, '2': 1}, {'7': 0, '8': 1})
    """
    named = {name: k for k, name in enumerate(names) if len(name) == 1 and name in "0123456789"}
    return named or {str((k + 1) % 10): k for k in range(min(10, len(names)))}


def _as_keep(room: Room, index: Any, action: Any, label: Any) -> tuple[Any, Any, Any]:
    """Relabelling with the given label is keeping it."""
    index = _whole(index, "index")
    codes = room.predictions.labels.codes
    is_class = isinstance(label, int) and 0 <= index < len(codes)
    if action == "relabel" and is_class and label == codes[index]:
        return index, "keep", None
    return index, action, label


def _row(room: Room, index: int) -> dict[str, Any]:
    return {"index": index, **standing_of(index, room.standing)}


def _picture(room: Room, request: Request, *, whole: bool) -> Response:
    index = _index(room, request)
    if room.pictures is None:
        raise HTTPException(404)
    found = room.pictures.whole(index) if whole else room.pictures.thumbnail(index)
    # The token, and with it the address, is another one each time the server starts.
    keep = {"Cache-Control": f"private, max-age={_DAY}, immutable"}
    return Response(found.content, media_type=f"image/{found.form}", headers=keep)


def _index(room: Room, request: Request) -> int:
    text = request.path_params["index"]
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) < room.n_samples):
        raise HTTPException(404)
    return int(text)


def _asked(room: Room, flags: Flags, query: Mapping[str, str]) -> Asked:
    K = room.predictions.labels.n_classes
    return Asked(
        flags.method,
        given=_number(query.get("given"), "given", K),
        suggested=_number(query.get("suggested"), "suggested", K),
        reason=_one_of(query.get("reason"), "reason", REASONS),
        state=_one_of(query.get("state"), "state", STATES),
        order=_one_of(query.get("order"), "order", ORDERS) or "suspect",
    )


def _flags(room: Room, method: Any) -> Flags:
    return room.listing.of(room.listing.headline if method is None else str(method))


def _worth(value: Any) -> float:
    try:
        return WORTH if value is None else arrays.fraction(float(value), "worth")
    except (TypeError, ValueError):
        raise InputError("worth", f"is {value!r:.40}", "Pass a share") from None


def _number(text: str | None, name: str, below: int) -> int | None:
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < below):
        raise InputError(name, f"is {text!r:.40}", f"Pass a whole number below {below}")
    return int(text)


def _whole(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(name, f"is {value!r:.40}", "Pass a whole number")
    return value


def _one_of(text: str | None, name: str, choices: tuple[Any, ...]) -> Any:
    if text is None or text == "":
        return None
    if text not in choices:
        raise InputError(name, f"is {text!r:.40}", f"Choose one of {', '.join(choices)}")
    return text


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or len(value) > 80 or not value.isprintable():
        raise InputError(name, f"is {value!r:.40}", "Pass a short text")
    return value


def _answering(room: Room, answer: Callable[[Room, Request], Any]) -> Callable[..., Any]:
    def endpoint(request: Request) -> Response:
        return _answered(lambda: answer(room, request))

    return endpoint


def _writing(room: Room, answer: Callable[[Room, dict[str, Any]], Any]) -> Callable[..., Any]:
    most = get_limit("request_bytes")

    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            raise HTTPException(415)
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > most:
            raise HTTPException(413)
        whole = bytearray()
        try:
            async for part in request.stream():
                whole += part
                if len(whole) > most:
                    raise HTTPException(413)
        except ClientDisconnect:  # nobody is there to be answered
            raise HTTPException(400) from None
        try:
            body = json.loads(whole)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise HTTPException(400, "the body is no JSON object")
        return await run_in_threadpool(_answered, lambda: answer(room, body))

    return endpoint


def _answered(answer: Callable[[], Any]) -> Response:
    """The answer as JSON, or what is wrong with the question."""
    try:
        return _json(answer())
    except ConflictError as error:
        return _json({"error": str(error), "now": [asdict(one) for one in error.now]}, 409)
    except FileError as error:  # no fault of the question: the page keeps it, and asks again
        return _json({"error": str(error)}, 503)
    except InputError as error:
        return _json({"error": str(error)}, 400)


def _json(content: Any, status: int = 200) -> Response:
    # Escaped to ASCII: file names may hold bytes that are no text.
    return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")


def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Response(
        f"{error.detail}\n", error.status_code, headers=error.headers, media_type="text/plain"
    )
