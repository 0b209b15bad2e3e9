"""Checks the values of a request, whoever sent it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from uqled.errors import InputError

LARGEST = 1 << 62


def read_number(text: str | None, name: str, below: int) -> int | None:
    """A whole number given as text; None if it is missing."""
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < below):
        raise InputError(name, f"is {text!r:.40}", f"Pass a whole number below {below}")
    return int(text)


def read_whole_number(value: Any, name: str) -> int:
    """A whole number given as JSON."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(name, f"is {value!r:.40}", "Pass a whole number")
    return value


def check_choice(text: Any, name: str, choices: tuple[Any, ...]) -> Any:
    """One of the choices; None where there is none."""
    if text is None or text == "":
        return None
    if text not in choices:
        raise InputError(name, f"is {text!r:.40}", f"Choose one of {', '.join(choices)}")
    return text


def read_field(body: Mapping[str, Any], name: str) -> str:
    """A short text."""
    value = body.get(name)
    if not isinstance(value, str) or len(value) > 80 or not value.isprintable():
        raise InputError(name, f"is {value!r:.40}", "Pass a short text")
    return value


def read_sample_number(request: Request, n_samples: int) -> int:
    """The sample that an address names."""
    text = request.path_params["index"]
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) < n_samples):
        raise HTTPException(404)
    return int(text)
