"""Escapes names and texts from the data for a terminal."""

from __future__ import annotations

import re

#: Characters that control a terminal, change the direction of writing, are invisible, or cannot be
#: written: control characters, direction marks, line separators, lone surrogates, tags.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def escape_controls(text: str, *, keep: str = "") -> str:
    r"""The text with every such character escaped as in Python.

    >>> print(escape_controls("cat\x1b[2J\n"))
    cat\x1b[2J\n
    """
    return _STEERING.sub(lambda match: _escape(match[0], keep), text)


def escape_message(text: str) -> str:
    """The same for our own messages, which may have several lines."""
    return escape_controls(text, keep="\n\t")


def _escape(character: str, keep: str) -> str:
    if character in keep:
        return character
    return character.encode("unicode_escape").decode("ascii")
