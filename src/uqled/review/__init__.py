"""The review page: a server on this machine, its page, and the decisions made there.

`uqled.review` is this package, and it can be called: `uqled.review(run)`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uqled.review.decisions import Action, ConflictError, Decision, Decisions
    from uqled.review.serve import review, serving

__all__ = ["Action", "ConflictError", "Decision", "Decisions", "review", "serving"]

#: Loaded when first used, so that importing stays quick.
_HOMES = {
    "Action": "uqled.review.decisions",
    "ConflictError": "uqled.review.decisions",
    "Decision": "uqled.review.decisions",
    "Decisions": "uqled.review.decisions",
    "review": "uqled.review.serve",
    "serving": "uqled.review.serve",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'uqled.review' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


class _Callable(ModuleType):
    """A package that is also the function of its name.

    The import system binds `uqled.review` to the package whenever a module in it is imported, so a
    function of that name would last only until then.
    """

    def __call__(self, run: Any, **options: Any) -> None:
        import_module("uqled.review.serve").review(run, **options)


sys.modules[__name__].__class__ = _Callable
