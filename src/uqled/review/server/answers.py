"""How a request is read and answered: JSON in and out, errors in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from uqled.errors import FileError, InputError
from uqled.limits import get_limit
from uqled.review.decisions import ConflictError
from uqled.review.session import ReviewSession
from uqled.storage.reading import parse_json


def make_reader(
    session: ReviewSession, answer: Callable[[ReviewSession, Request], Any]
) -> Callable[..., Any]:
    def endpoint(request: Request) -> Response:
        return _send_answer(lambda: answer(session, request))

    return endpoint


def make_writer(
    session: ReviewSession, answer: Callable[[ReviewSession, dict[str, Any]], Any]
) -> Callable[..., Any]:
    most = get_limit("request_bytes")

    async def endpoint(request: Request) -> Response:
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            raise HTTPException(415)
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18 or int(length) > most:
            raise HTTPException(413)
        content = bytearray()
        try:
            async for part in request.stream():
                content += part
                if len(content) > most:
                    raise HTTPException(413)
        except ClientDisconnect:  # there is nobody left to answer
            raise HTTPException(400) from None
        try:
            body = parse_json(content)
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise HTTPException(400, "the body is no JSON object")
        return await run_in_threadpool(_send_answer, lambda: answer(session, body))

    return endpoint


def _send_answer(answer: Callable[[], Any]) -> Response:
    """Send the answer, as JSON unless it is a response already, or the error of the request."""
    try:
        content = answer()
        return content if isinstance(content, Response) else _send_json(content)
    except ConflictError as error:
        return _send_json({"error": str(error), "now": [asdict(one) for one in error.now]}, 409)
    except FileError as error:  # not the request's fault: the page keeps it and retries
        return _send_json({"error": str(error)}, 503)
    except InputError as error:
        return _send_json({"error": str(error)}, 400)


def _send_json(content: Any, status: int = 200) -> Response:
    # Escaped to ASCII: file names may hold bytes that are no text.
    return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")
