"""Whatever users pass as an array, converted to NumPy: read once, within its length, or refused.

NumPy iterates any object that looks like a sequence until it raises an error, which a torch data
set need not do.
"""

from __future__ import annotations

from array import array as pyarray
from collections import deque
from collections.abc import Mapping, Set
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import InputError, UqledError
from uqled.storage.reading import first_line

_OWN_ARRAYS = ("__array__", "__array_interface__", "__array_struct__")
_NON_ARRAY_TYPES = (list, tuple, range, str, bytes, bytearray, memoryview, deque, pyarray)


def to_numpy(array: Any, name: str = "the array") -> NDArray[Any]:
    """Convert to a NumPy array, without a copy where possible.

    Raises `ValueError` for rows of different lengths, as NumPy does.
    """
    refuse_masked(array, name)
    if isinstance(array, np.ndarray):
        return np.asarray(array)
    if hasattr(array, "detach"):
        return _load_tensor(array, name)
    if not _has_own_array(array) and not isinstance(array, _NON_ARRAY_TYPES):
        array = _read_within_length(array, name)
    if isinstance(array, list | tuple):
        _check_entries(array, name)
    try:
        return np.asarray(array)
    except (ValueError, UqledError):
        raise
    except Exception as error:  # objects of other libraries can raise anything
        raise _make_unreadable_error(array, name, error) from error


def refuse_masked(array: Any, name: str) -> None:
    """Refuse an array with masked places: the values under the mask are arbitrary."""
    if np.ma.is_masked(array):
        raise InputError(name, "has masked values", "Leave those samples out")


def check_tensor(array: Any, name: str) -> None:
    """Refuse a torch tensor that is not a plain, dense block of numbers."""
    if not hasattr(array, "detach"):
        return
    if getattr(array, "is_quantized", False):
        raise InputError(name, "is a quantised tensor", "Pass tensor.dequantize()")
    if str(getattr(array, "layout", "torch.strided")) != "torch.strided":
        raise InputError(name, "is a sparse tensor", "Pass tensor.to_dense()")
    if getattr(array, "is_meta", False):
        raise InputError(
            name, "is a tensor on the meta device, without data", "Load its data first"
        )


def _load_tensor(tensor: Any, name: str) -> NDArray[Any]:
    check_tensor(tensor, name)
    try:
        tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
        try:
            return np.asarray(tensor)
        except TypeError:  # bfloat16 and other types that NumPy does not have
            return np.asarray(tensor.float())
    except Exception as error:
        raise _make_unreadable_error(tensor, name, error) from error


def _has_own_array(array: Any) -> bool:
    """Whether it converts itself, or has no content: numbers, None."""
    if any(hasattr(type(array), method) for method in _OWN_ARRAYS):
        return True
    if isinstance(array, Mapping | Set):  # NumPy takes them for one object
        return True
    return not any(hasattr(array, method) for method in ("__len__", "__getitem__", "__iter__"))


def _read_within_length(array: Any, name: str) -> list[Any]:
    """The items of a sequence, read up to its length."""
    is_sequence = hasattr(array, "__getitem__")
    try:
        n = len(array) if is_sequence else None
    except Exception:
        n = None
    if n is None:
        raise InputError(
            name,
            f"is a {type(array).__name__}, which has no length or cannot be indexed by number",
            "Pass a list or an array",
        )
    try:
        return list(islice(iter(array), n))
    except Exception as error:
        raise _make_unreadable_error(array, name, error) from error


def _check_entries(entries: list[Any] | tuple[Any, ...], name: str) -> None:
    """Refuse entries that NumPy would iterate without knowing where they end."""
    for kind in set(map(type, entries)):
        is_sequence = hasattr(kind, "__getitem__") and hasattr(kind, "__len__")
        is_known_kind = issubclass(kind, (*_NON_ARRAY_TYPES, Mapping)) or hasattr(kind, "detach")
        if is_sequence and not is_known_kind and not any(hasattr(kind, m) for m in _OWN_ARRAYS):
            raise InputError(
                name, f"has entries that are a {kind.__name__}", "Pass numbers, texts or arrays"
            )


def _make_unreadable_error(array: Any, name: str, error: BaseException) -> InputError:
    return InputError(
        name,
        f"is a {type(array).__name__} that cannot be read ({first_line(error)})",
        "Pass a list or a NumPy array",
    )


def check_array_like(array: Any, name: str) -> Any:
    """An object that has a shape, unchanged; anything else as an array. What cannot be rows is
    refused."""
    refuse_masked(array, name)
    check_tensor(array, name)
    if type(array).__module__.startswith("scipy.sparse"):
        raise InputError(name, "is a sparse matrix", "Pass array.toarray()")
    if hasattr(array, "shape") and (hasattr(array, "dtype") or hasattr(array, "iloc")):
        return array
    return to_rows(array, name)


def to_rows(array: Any, name: str) -> NDArray[Any]:
    """Anything that has rows of equal length, as one array."""
    try:
        return to_numpy(array, name)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(
            name,
            f"is a {type(array).__name__} that cannot become an array ({error})",
            "Pass rows of equal length",
        ) from None
