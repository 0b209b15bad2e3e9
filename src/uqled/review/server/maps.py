"""The map of samples over HTTP: places and values as plain bytes, ready to be drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from uqled.review.flag_list import FlagList
from uqled.review.server.parameters import check_choice
from uqled.review.session import ReviewSession

COLOURINGS = ("given", "suggested", "probability", "decision")
_UNKNOWN_PROBABILITY = 255  # an error probability that nobody estimated
_LARGEST = 250  # a probability of 1


def show_map(session: ReviewSession, _: Request) -> Any:
    """How far the map is."""
    return session.map.describe()


def send_places(session: ReviewSession, _: Request) -> Response:
    """[N,2] little-endian floats."""
    return _send_array(session.map.get_places().astype("<f4"))


def send_values(session: ReviewSession, request: Request) -> Response:
    """[N] the values that colour the points: class numbers have 4 bytes, the others 1."""
    query = request.query_params
    by = check_choice(query.get("by"), "by", COLOURINGS) or "given"
    session.update()
    return _send_array(_get_values(session, session.get_list(query.get("method")), by))


def _get_values(session: ReviewSession, flags: FlagList, by: str) -> NDArray[Any]:
    if by == "given":
        return session.predictions.labels.codes.astype("<u4")
    if by == "suggested":
        return flags.current.suggested_codes.astype("<u4")
    if by == "decision":
        return session.state.actions.astype(np.uint8)
    probability = flags.current.probability
    if probability is None:
        return np.full(len(session.predictions), _UNKNOWN_PROBABILITY, np.uint8)
    return np.rint(probability * _LARGEST).astype(np.uint8)


def _send_array(array: NDArray[Any]) -> Response:
    return Response(np.ascontiguousarray(array).tobytes(), media_type="application/octet-stream")
