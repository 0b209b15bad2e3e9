"""How kernels are compiled: by Numba, without the interpreter lock, cached on disk if possible."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import cgutils
from numba.core.caching import FunctionCache
from numba.extending import intrinsic, overload

from uqled.progress import note_activity

Function = TypeVar("Function", bound=Callable[..., Any])


class _OptionalCache(FunctionCache):  # type: ignore[misc]
    """A disk cache whose failure costs a compilation and nothing else."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            kernel = super().load_overload(sig, target_context)
        except Exception:  # a truncated or foreign file raises anything: compile again
            with suppress(Exception):
                self.flush()
            kernel = None
        if kernel is None:
            note_activity("compiling, at first use")
        return kernel

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):  # a full or read-only disk, or an unreadable index
            super().save_overload(sig, data)
        note_activity("")


def compile_kernel(function: Function) -> Function:
    """Compile `function` on its first call, for the argument types of that call."""
    return _compile(function, {"contract"})


def compile_reassociating_kernel(function: Function) -> Function:
    """As `compile_kernel`, but float sums may be reordered, so that they run in vector registers.

    Only for sums within one row: sums over rows must not depend on the machine, and are of whole
    units. Not for differences of large numbers, which are reordered too.
    """
    return _compile(function, {"contract", "reassoc"})


def prefetch_value(values: Any, at: int) -> None:
    """Tell the processor that `values.flat[at]` will be read soon: no value is read or waited for.

    In compiled code only; does nothing elsewhere.
    """


@overload(prefetch_value, inline="always")  # type: ignore[untyped-decorator]
def _compile_prefetch(values: Any, at: Any) -> Any:  # noqa: ARG001 - as `prefetch_value`
    def prefetch(values: Any, at: Any) -> None:
        _emit_prefetch(values, at)

    return prefetch


@intrinsic  # type: ignore[untyped-decorator]
def _emit_prefetch(_: Any, values: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, to_all_caches, data = number(0), number(3), number(1)
        address = builder.bitcast(address, pointer)
        builder.call(function, [address, to_read, to_all_caches, data])
        return context.get_dummy_value()

    return numba.types.void(values, at), generate


def _compile(function: Function, fastmath: set[str]) -> Function:
    dispatcher = numba.njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
    with suppress(RuntimeError):  # no writable cache directory: compiled once per process
        dispatcher._cache = _OptionalCache(function)
    return cast(Function, dispatcher)
