"""Normalises texts: differences that do not matter to an annotator are removed."""

from __future__ import annotations

import re
import unicodedata

_SIGNS = "#%&@/\\"  # punctuation that carries meaning: C#, 5%
_EMOTICON = re.compile(r"[:;=8xX][-^'o]?[()\[\]{}|/\\<>*3dDpP]+$|[()\[\]<][-^'o]?[:;=]$|<3|\^_*\^")


def fold_text(text: str) -> str:
    """Normalise the case and spacing of a text.

    >>> fold_text("Good  FILM!")
    'good film!'
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def strip_punctuation(text: str) -> list[str]:
    """Split a text into words without surrounding punctuation.

    Punctuation inside a word (C++, 5.00, don't) stays, and so do emoticons.

    >>> strip_punctuation("well, (this) is c++... isn't it?! :-)")
    ['well', 'this', 'is', 'c++', "isn't", 'it', ':-)']
    """
    words = (piece if _EMOTICON.search(piece) else _strip_marks(piece) for piece in text.split())
    return [word for word in words if word]


def _strip_marks(piece: str) -> str:
    start, end = 0, len(piece)
    while start < end and _is_mark(piece[start]):
        start += 1
    while end > start and _is_mark(piece[end - 1]):
        end -= 1
    return piece[start:end]


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "P" and character not in _SIGNS


def is_one_edit(short: str, long: str) -> bool:
    """Whether two words differ by one letter; a different digit does not count.

    >>> is_one_edit("adeli", "adelie"), is_one_edit("model1", "model2")
    (True, False)
    """
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if any(text[at : at + 1].isdigit() for text in (short, long)):
        return False
    rest = at + 1 if len(short) == len(long) else at
    return short[rest:] == long[at + 1 :]
