"""Reads plain data from a pickle without running it.

A pickle is a program. This interprets its opcodes and builds only dictionaries, lists, tuples,
numbers, texts, bytes and arrays of whole numbers; anything else is refused by name. That is enough
for CIFAR's files, whether written by Python 2 or by Python 3.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAX_KEYS = 1000  # of a dictionary: CIFAR's have five, and crafted keys can collide
_MAX_AXES = 4  # of an array: CIFAR's have two
_INTEGERS = ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8")
_BYTE_ORDERS = ("|", "<", ">", "=")
_PLAIN_TYPES = (type(None), bool, int, float, str, bytes, bytearray)

#: Names that a pickle may refer to -> their name in errors. Referring to one does not call it.
_NAMES = {
    ("numpy", "ndarray"): "numpy.ndarray",
    ("numpy", "dtype"): "numpy.dtype",
    ("numpy.core.multiarray", "_reconstruct"): "_reconstruct",
    ("numpy._core.multiarray", "_reconstruct"): "_reconstruct",
    ("numpy.core.numeric", "_frombuffer"): "_frombuffer",
    ("numpy._core.numeric", "_frombuffer"): "_frombuffer",
    ("_codecs", "encode"): "_codecs.encode",  # how Python 3 writes bytes for Python 2
    ("__builtin__", "bytes"): "bytes",  # and empty bytes
}


@dataclass(frozen=True)
class _Name:
    """A function that the pickle names."""

    text: str


@dataclass
class _Type:
    """The type of an array."""

    code: str
    order: str = "="

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.order.replace("|", "=") + self.code)


@dataclass
class _Array:
    """An array; a pickle creates it first and sets its content later."""

    content: NDArray[Any] | None = None


class _NestedTuple(tuple[Any, ...]):
    """A tuple that contains tuples; it must not be nested in another one."""

    __slots__ = ()


def read_plain_pickle(data: bytes) -> Any:
    """Return the content of a pickle, or raise a `ValueError` if it is damaged or not plain data.

    >>> import pickle
    >>> read_plain_pickle(pickle.dumps({b"labels": [1, 2]}))
    {b'labels': [1, 2]}
    """
    reader = _Reader(len(data))
    for opcode, argument, position in pickletools.genops(data):
        name = opcode.name
        if name == "STOP":
            break
        try:
            if (constant := _CONSTANTS.get(name)) is not None:
                reader.stack.append(constant(argument))
            elif (step := _STEPS.get(name)) is not None:
                step(reader, argument)
            else:
                raise ValueError("is not needed for plain data")
        except ValueError as error:
            raise ValueError(f"opcode {name} at byte {position} {error}") from error
    return _unwrap_arrays(reader.pop())


@dataclass
class _Reader:
    """The stack and the memo of a pickle, with plain data in them."""

    size: int
    """Bytes of the pickle; the texts built from it must not be longer in total."""
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)
    encoded: int = 0

    def pop(self) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise ValueError("takes from an empty stack")
        return self.stack.pop()

    def pop_mark(self) -> list[Any]:
        """Pop everything pushed since the last MARK."""
        if not self.marks:
            raise ValueError("comes without a MARK")
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def top(self) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise ValueError("looks at an empty stack")
        return self.stack[-1]

    def get(self, index: int) -> None:
        if index not in self.memo:
            raise ValueError(f"reads entry {index} of the memo, which does not exist")
        self.stack.append(self.memo[index])

    def put(self, index: int) -> None:
        self.memo[index] = self.top()

    def push_tuple(self, items: list[Any]) -> None:
        if any(isinstance(item, _NestedTuple | list | dict) for item in items):
            raise ValueError("makes a tuple nested deeper than CIFAR's are")
        is_deep = any(isinstance(item, tuple) for item in items)
        self.stack.append(_NestedTuple(items) if is_deep else tuple(items))

    def push_tuple_of(self, n: int) -> None:
        self.push_tuple([self.pop() for _ in range(n)][::-1])

    def append(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) is not list:
            raise ValueError(f"appends to {_describe_value(target)}")
        for item in items:
            if type(item) not in _PLAIN_TYPES:
                raise ValueError(
                    f"puts {_describe_value(item)} into a list, nested as CIFAR's are not"
                )
        target += items

    def set_items(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) is not dict or len(items) % 2:
            raise ValueError(f"sets items of {_describe_value(target)}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, bytes, int):
                raise ValueError(f"has {_describe_value(key)} as a key")
            if type(value) not in (*_PLAIN_TYPES, list, tuple, _NestedTuple, _Array):
                raise ValueError(f"puts {_describe_value(value)} into a dictionary")
            target[key] = value
        if len(target) > _MAX_KEYS:
            raise ValueError(f"makes a dictionary of more than {_MAX_KEYS:,} keys")

    def push_name(self, module: Any, attribute: Any) -> None:
        if not (type(module) is str and type(attribute) is str):
            raise ValueError("names something that is not text")
        if (module, attribute) not in _NAMES:
            raise ValueError(f"asks for {module}.{attribute}")
        self.stack.append(_Name(_NAMES[module, attribute]))

    def call(self) -> None:
        """Emulate the call of a known name whose result is plain data."""
        arguments, function = self.pop(), self.pop()
        if type(function) is not _Name or not isinstance(arguments, tuple):
            raise ValueError(f"calls {_describe_value(function)}")
        match function.text, tuple(arguments):
            case "_codecs.encode", (str(text), "latin1" | b"latin1"):
                self.stack.append(self._encode(text))
            case "bytes", ():
                self.stack.append(b"")
            case "numpy.dtype", (str() | bytes() as code, _, _):
                self.stack.append(_read_type(code))
            case "_reconstruct", (_Name("numpy.ndarray"), (0,), b"b" | "b"):
                self.stack.append(_Array())
            case "_frombuffer", (bytes() | bytearray() as data, _Type() as kind, shape, order):
                self.stack.append(_Array(_make_array(shape, kind, order in ("F", b"F"), data)))
            case _:
                raise ValueError(f"calls {function.text} with arguments that CIFAR does not need")

    def build(self) -> None:
        """Give an array its content, or a type its byte order."""
        state, target = self.pop(), self.top()
        if not isinstance(state, tuple):
            raise ValueError(f"builds {_describe_value(target)} out of {_describe_value(state)}")
        match target, tuple(state):
            case _Array(content=None), (1, shape, kind, is_fortran, bytes() as data):
                target.content = _make_array(shape, kind, bool(is_fortran), data)
            case _Type(), (int(), str() | bytes() as order, None, None, None, -1, -1, 0):
                target.order = order if isinstance(order, str) else order.decode("latin-1")
                if target.order not in _BYTE_ORDERS:
                    raise ValueError(f"has a type of the byte order {target.order!r}")
            case _:
                raise ValueError(
                    f"builds {_describe_value(target)} in a way that CIFAR does not need"
                )

    def _encode(self, text: str) -> bytes:
        """Encode a text; the total is limited, because the memo can repeat a text without end."""
        self.encoded += len(text)
        if self.encoded > self.size:
            raise ValueError("makes more bytes than the file has")
        return text.encode("latin-1")


def _read_type(code: str | bytes) -> _Type:
    text = code if isinstance(code, str) else code.decode("latin-1")
    if text not in _INTEGERS:
        raise ValueError(f"has an array of {text[:20]!r}, and CIFAR has whole numbers only")
    return _Type(text)


def _make_array(shape: Any, kind: Any, is_fortran: bool, data: bytes | bytearray) -> NDArray[Any]:
    """Make an array from its bytes, whose number must match the shape."""
    if type(kind) is not _Type:
        raise ValueError(f"has an array of no plain type ({_describe_value(kind)})")
    is_shape = type(shape) is tuple and all(type(n) is int and n > 0 for n in shape)
    if not is_shape or not 1 <= len(shape) <= _MAX_AXES:
        raise ValueError(f"has an array of shape {str(shape)[:60]}")
    dtype = kind.dtype()
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueError(f"has {len(data):,} bytes for an array of shape {shape}")
    flat: NDArray[Any] = np.frombuffer(data, dtype)
    return flat.reshape(shape, order="F" if is_fortran else "C")


def _unwrap_arrays(value: Any) -> Any:
    if type(value) is not dict:
        return value
    return {key: _get_content(entry) for key, entry in value.items()}


def _get_content(value: Any) -> Any:
    if type(value) is not _Array:
        return value
    if value.content is None:
        raise ValueError("it has an array without content")
    return value.content


def _describe_value(value: Any) -> str:
    if type(value) is _Name:
        return value.text
    kinds = {_Array: "an array", _Type: "a type", _NestedTuple: "a tuple", type(None): "None"}
    return kinds.get(type(value), f"a {type(value).__name__}")


_CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_DICT": lambda _: {},
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    # Python 2 strings are bytes, which `genops` decodes as Latin-1.
    **dict.fromkeys(("BINSTRING", "SHORT_BINSTRING"), lambda text: text.encode("latin-1")),
    **dict.fromkeys(
        (
            *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"),
            *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
            *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
        ),
        lambda value: value,
    ),
}

_STEPS: dict[str, Callable[[_Reader, Any], None]] = {
    "PROTO": lambda _reader, _: None,
    "FRAME": lambda _reader, _: None,
    "MARK": lambda reader, _: reader.marks.append(len(reader.stack)),
    "BINGET": lambda reader, index: reader.get(index),
    "LONG_BINGET": lambda reader, index: reader.get(index),
    "BINPUT": lambda reader, index: reader.put(index),
    "LONG_BINPUT": lambda reader, index: reader.put(index),
    "MEMOIZE": lambda reader, _: reader.put(len(reader.memo)),
    "TUPLE": lambda reader, _: reader.push_tuple(reader.pop_mark()),
    "TUPLE1": lambda reader, _: reader.push_tuple_of(1),
    "TUPLE2": lambda reader, _: reader.push_tuple_of(2),
    "TUPLE3": lambda reader, _: reader.push_tuple_of(3),
    "APPEND": lambda reader, _: reader.append([reader.pop()]),
    "APPENDS": lambda reader, _: reader.append(reader.pop_mark()),
    "SETITEM": lambda reader, _: reader.set_items([reader.pop(), reader.pop()][::-1]),
    "SETITEMS": lambda reader, _: reader.set_items(reader.pop_mark()),
    "GLOBAL": lambda reader, names: reader.push_name(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda reader, _: reader.push_name(*[reader.pop(), reader.pop()][::-1]),
    "REDUCE": lambda reader, _: reader.call(),
    "BUILD": lambda reader, _: reader.build(),
}
