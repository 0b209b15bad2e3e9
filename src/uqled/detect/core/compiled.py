"""How kernels are compiled: Numba, without the interpreter lock, cached on disk where possible."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

Function = TypeVar("Function", bound=Callable[..., Any])


class _OptionalCache(FunctionCache):  # type: ignore[misc]
    """A disk cache whose failure costs a compilation and nothing else."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a truncated or foreign file: whatever reading it raised, compile anew
            with suppress(Exception):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):  # a full or read-only disk, or an index that cannot be read
            super().save_overload(sig, data)


def compiled(function: Function) -> Function:
    """Compile `function` when it is first called, for the types it is called with."""
    return _compiled(function, {"contract"})


def compiled_in_any_order(function: Function) -> Function:
    """As `compiled`; sums of floats may be taken in any order, and so in vector registers.

    For sums over one row. What is summed over rows is summed in whole units, because it must not
    depend on the machine. Not for differences of large numbers: they are reordered too.
    """
    return _compiled(function, {"contract", "reassoc"})


def _compiled(function: Function, fastmath: set[str]) -> Function:
    dispatcher = numba.njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
    with suppress(RuntimeError):  # no directory that can be written: compiled once per process
        dispatcher._cache = _OptionalCache(function)
    return cast(Function, dispatcher)
