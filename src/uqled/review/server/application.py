"""The routes of the review page. Every decision is on the disk before it is answered."""

from __future__ import annotations

import json
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

from uqled.detect.reasons import REASONS
from uqled.errors import FileError, InputError
from uqled.limits import get_limit
from uqled.review.decision_state import STATES
from uqled.review.decisions import ConflictError
from uqled.review.estimates import Estimates
from uqled.review.flag_list import ORDERS, FlagList, ListQuery
from uqled.review.groups import list_groups
from uqled.review.sample_content import read_content, read_preview
from uqled.review.server.parameters import (
    LARGEST,
    check_choice,
    check_whole_number,
    read_number,
    read_sample_number,
    read_text,
)
from uqled.review.session import ReviewSession

_MAX_PAGE = 500  # samples
_MAX_GROUPS = 20  # in one answer; the page asks again when they are decided
_MAX_CHANGES = 500  # after which a page loads its list anew
_DAY = 86_400  # seconds

_STATIC_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def make_application(session: ReviewSession) -> Starlette:
    """The page and its routes; `Guard` goes around it."""
    pages = files("uqled.review") / "templates"
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    page = environment.from_string((pages / "page.html").read_text("utf-8")).render(
        name=session.predictions.path.resolve().name
    )
    static = {
        item.name: (item.read_bytes(), _STATIC_TYPES[item.name.rsplit(".", 1)[1]])
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
        return _send_picture(session, request, whole=False)

    def show_picture(request: Request) -> Response:
        return _send_picture(session, request, whole=True)

    routes = [
        Route("/", show_page),
        Route("/static/{name}", show_static),
        Route("/thumbnail/{index}", show_thumbnail),
        Route("/picture/{index}", show_picture),
        Route("/api/start", _make_reader(session, _start)),
        Route("/api/samples", _make_reader(session, _list_samples)),
        Route("/api/sample/{index}", _make_reader(session, _show_sample)),
        Route("/api/changes", _make_reader(session, _list_changes)),
        Route("/api/estimates", _make_reader(session, _estimate)),
        Route("/api/groups", _make_reader(session, _list_groups)),
        Route("/api/decide", _make_writer(session, _decide), methods=["POST"]),
        Route("/api/decide-all", _make_writer(session, _decide_all), methods=["POST"]),
        Route("/api/undo", _make_writer(session, _undo), methods=["POST"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _send_http_error})
    app.router.redirect_slashes = False  # it would lead to an address without the token
    return app


def _start(session: ReviewSession, request: Request) -> Any:
    """What the page needs to know of the run and a method."""
    flags = session.get_list(request.query_params.get("method"))
    session.update()  # a page begins with a list that follows all decisions
    labels, source = session.predictions.labels, session.source
    first = session.errors.first
    return {
        "classes": list(labels.names),
        "kind": "none" if source is None else source.kind,
        "samples": len(session.predictions),
        "methods": {name: one.n_flagged for name, one in first.items()},
        "headline": session.errors.headline,
        "method": flags.method,
        "reasons": list(REASONS),
        "reviewer": session.reviewer,
        "overview": session.count_overview(flags),
        "queue": len(session.state.list_decided(flags.is_listed)),
        **session.describe_progress(flags),
    }


def _list_samples(session: ReviewSession, request: Request) -> Any:
    """A page of the list."""
    query = request.query_params
    flags = session.get_list(query.get("method"))
    backwards = "before" in query
    session.state.refresh()
    start = query.get("before") if backwards else query.get("from", "0")
    page = flags.read_page(
        _read_query(session, flags, query),
        start=read_number(start, "before" if backwards else "from", LARGEST) or 0,
        size=max(1, read_number(query.get("size", "100"), "size", _MAX_PAGE + 1) or 0),
        backwards=backwards,
    )
    rows = flags.describe_samples(page.indices, page.places)
    for row in rows:
        row["preview"] = read_preview(session.source, row["index"])
    return {
        "samples": rows,
        "before": page.before,
        "total": page.total,
        "undecided": page.undecided,
        **session.describe_progress(flags),
    }


def _show_sample(session: ReviewSession, request: Request) -> Any:
    """A text or a row at its full length, and what speaks for either of its labels."""
    index = read_sample_number(request, len(session.predictions))
    flags = session.get_list(request.query_params.get("method"))
    return {
        "index": index,
        "content": read_content(session.source, index),
        "evidence": session.evidence.collect(index, flags),
    }


def _list_groups(session: ReviewSession, request: Request) -> Any:
    """The first groups of undecided flags, with their samples."""
    flags = session.get_list(request.query_params.get("method"))
    session.update()
    groups, n_groups = list_groups(flags, session.predictions, _MAX_GROUPS)
    content = []
    for group in groups:
        rows = flags.describe_samples(group.indices, np.arange(len(group.indices)))
        for row in rows:
            row["preview"] = read_preview(session.source, row["index"])
        content.append(
            {
                "given": group.given,
                "suggested": group.suggested,
                "n_more": group.n_more,
                "errors": group.errors,
                "samples": rows,
            }
        )
    return {"groups": content, "n_groups": n_groups}


def _list_changes(session: ReviewSession, request: Request) -> Any:
    """What was decided since the page last asked."""
    query = request.query_params
    after = read_number(query.get("after", "0"), "after", LARGEST) or 0
    session.state.refresh()
    changed = {change.index for change in session.decisions.history(after)}
    many = len(changed) > _MAX_CHANGES
    return {
        "many": many,
        "changed": [] if many else [_describe(session, index) for index in sorted(changed)],
        **session.describe_progress(session.get_list(query.get("method"))),
    }


def _estimate(session: ReviewSession, request: Request) -> Any:
    """How many labels are probably wrong; apart from the rest, because it may take a second."""
    flags = session.get_list(request.query_params.get("method"))
    estimates = session.estimate(flags)
    return {
        "estimates": None if estimates is None else _describe_estimates(estimates),
        "overview": session.count_overview(flags),
        **session.describe_progress(flags),
    }


def _describe_estimates(estimates: Estimates) -> dict[str, Any]:
    """The estimates as JSON, without the samples of each offer."""
    content = asdict(replace(estimates, bulk=[]))
    content["bulk"] = [
        {"kind": one.kind, "n": one.n, "errors": asdict(one.errors)} for one in estimates.bulk
    ]
    return content


def _decide(session: ReviewSession, body: dict[str, Any]) -> Any:
    items, seen = body.get("items"), body.get("seen")
    if not isinstance(items, list) or not isinstance(seen, dict) or not items:
        raise InputError("items", "or seen are missing", "Send both")
    if not all(isinstance(item, list) and len(item) == 3 for item in items):
        raise InputError("items", "are not [sample, action, class] each", "Send such a list")
    flags = session.get_list(_read_method(body))
    decided = session.decisions.decide(
        [_read_item(session, *item) for item in items],
        reviewer=read_text(body, "reviewer"),
        seen={
            read_number(index, "seen", LARGEST) or 0: check_whole_number(version, "seen")
            for index, version in seen.items()
        },
        tab=read_text(body, "tab"),
    )
    session.state.refresh()
    return {
        "decided": [_describe(session, decision.index) for decision in decided],
        **session.describe_progress(flags),
    }


def _decide_all(session: ReviewSession, body: dict[str, Any]) -> Any:
    """Accept the suggestions of an offer, if it still stands: the same samples, and the estimate
    carries it."""
    flags = session.get_list(_read_method(body))
    kind = check_choice(body.get("kind"), "kind", ("next", "above"))
    n = check_whole_number(body.get("n"), "n")
    if kind is None or check_whole_number(body.get("number"), "number") < session.state.number:
        raise InputError("number", "is not the last decision", "Look at the list again")
    estimates = session.estimate(flags)
    offers = [] if estimates is None else estimates.bulk
    offer = next((one for one in offers if (one.kind, one.n) == (kind, n)), None)
    if offer is None:
        raise InputError("n", f"is {n}, which the estimate does not carry", "Decide one by one")
    best = flags.current.best
    items = [_read_item(session, i, "relabel", int(best[i])) for i in offer.indices]
    latest = session.state.latest
    seen = {index: latest[index].version for index, _, _ in items if index in latest}
    decided = session.decisions.decide(
        items, reviewer=read_text(body, "reviewer"), seen=seen, tab=read_text(body, "tab")
    )
    session.state.refresh()
    return {"number_decided": len(decided), **session.describe_progress(flags)}


def _undo(session: ReviewSession, body: dict[str, Any]) -> Any:
    flags = session.get_list(_read_method(body))
    undone = session.decisions.undo(read_text(body, "reviewer"), tab=read_text(body, "tab"))
    session.state.refresh()
    return {
        "undone": [_describe(session, index) for index in undone[:_MAX_CHANGES]],
        "number_undone": len(undone),
        **session.describe_progress(flags),
    }


def _read_item(session: ReviewSession, index: Any, action: Any, label: Any) -> Any:
    """One decision; relabelling with the given label is keeping it."""
    index = check_whole_number(index, "index")
    codes = session.predictions.labels.codes
    is_class = isinstance(label, int) and 0 <= index < len(codes)
    if action == "relabel" and is_class and label == codes[index]:
        return index, "keep", None
    return index, action, label


def _read_method(body: Mapping[str, Any]) -> str | None:
    method = body.get("method")
    return None if method is None else str(method)


def _read_query(session: ReviewSession, flags: FlagList, query: Mapping[str, str]) -> ListQuery:
    K = session.predictions.labels.n_classes
    return ListQuery(
        flags.method,
        given=read_number(query.get("given"), "given", K),
        suggested=read_number(query.get("suggested"), "suggested", K),
        reason=check_choice(query.get("reason"), "reason", REASONS),
        state=check_choice(query.get("state"), "state", STATES),
        order=check_choice(query.get("order"), "order", ORDERS) or "suspect",
    )


def _describe(session: ReviewSession, index: int) -> dict[str, Any]:
    return {"index": index, **session.state.describe(index)}


def _send_picture(session: ReviewSession, request: Request, *, whole: bool) -> Response:
    index = read_sample_number(request, len(session.predictions))
    if session.pictures is None:
        raise HTTPException(404)
    read = session.pictures.read_whole if whole else session.pictures.read_thumbnail
    content, form = read(index)
    # The token, and with it the address, is another one each time the server starts.
    cache = {"Cache-Control": f"private, max-age={_DAY}, immutable"}
    return Response(content, media_type=f"image/{form}", headers=cache)


def _make_reader(
    session: ReviewSession, answer: Callable[[ReviewSession, Request], Any]
) -> Callable[..., Any]:
    def endpoint(request: Request) -> Response:
        return _send_answer(lambda: answer(session, request))

    return endpoint


def _make_writer(
    session: ReviewSession, answer: Callable[[ReviewSession, dict[str, Any]], Any]
) -> Callable[..., Any]:
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
        return await run_in_threadpool(_send_answer, lambda: answer(session, body))

    return endpoint


def _send_answer(answer: Callable[[], Any]) -> Response:
    """The answer as JSON, or what is wrong with the request."""
    try:
        return _send_json(answer())
    except ConflictError as error:
        return _send_json({"error": str(error), "now": [asdict(one) for one in error.now]}, 409)
    except FileError as error:  # no fault of the request: the page keeps it, and sends it again
        return _send_json({"error": str(error)}, 503)
    except InputError as error:
        return _send_json({"error": str(error)}, 400)


def _send_json(content: Any, status: int = 200) -> Response:
    # Escaped to ASCII: file names may hold bytes that are no text.
    return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")


def _send_http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return Response(
        f"{error.detail}\n", error.status_code, headers=error.headers, media_type="text/plain"
    )
