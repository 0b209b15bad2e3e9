"""Names and texts from data, on their way to a terminal."""

from __future__ import annotations

import re

#: What steers a terminal, turns the direction of writing, hides, or cannot be written at all:
#: control characters, marks of direction, separators of lines, halves of characters, tags.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def escape_controls(text: str, *, keep: str = "") -> str:
    r"""The text with every character that steers a terminal as Python writes it.

    >>> print(escape_controls("cat\x1b[2J\n"))
    cat\x1b[2J\n
    """
    return _STEERING.sub(lambda match: _escape(match[0], keep), text)


def escape_message(text: str) -> str:
    """The same for what we say ourselves, in lines of our own."""
    return escape_controls(text, keep="\n\t")


def _escape(character: str, keep: str) -> str:
    if character in keep:
        return character
    return character.encode("unicode_escape").decode("ascii")
