"""The weights in an ONNX file, without the package `onnx`: for what computes a network otherwise.

Understood are tensors of float32, and of 8-bit integers `X_q` with their scales `X_scale`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Numbers of fields in onnx.proto.
_MODEL_GRAPH = 7
_GRAPH_NODE, _GRAPH_TENSOR = 1, 5
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATOR = 1, 2, 4
_TENSOR_SIDES, _TENSOR_TYPE, _TENSOR_NAME, _TENSOR_BYTES = 1, 2, 8, 9
_TYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 3: np.dtype("i1")}
_VARINT, _BYTES = 0, 2  # how a field is stored
_SIZES = {1: 8, 5: 4}  # of other fields, in bytes
_CONTINUES = 128  # the bit of a byte that says that the number goes on


def read_onnx_weights(path: Path) -> dict[str, NDArray[np.float32]]:
    """Weights by name; the matrix of a linear layer is called as its bias, with `.weight`.

    Exporters keep the names of biases and not those of matrices, which they transpose: here they
    are [out,in] again, as in PyTorch.
    """
    [graph] = _read_fields(memoryview(path.read_bytes()))[_MODEL_GRAPH]
    fields = _read_fields(graph)
    tensors = dict(_read_tensors(fields.get(_GRAPH_TENSOR, [])))
    weights = {
        name: array for name, array in tensors.items() if array.dtype == _TYPES[1] and array.ndim
    }
    for name, array in tensors.items():
        base = name.removesuffix("_q")
        if base != name and f"{base}_scale" in tensors:
            weights[base] = array * tensors[f"{base}_scale"]
    matrices = {}  # by the output of the product
    for node in fields[_GRAPH_NODE]:
        parts = _read_fields(node)
        inputs = [_to_text(name) for name in parts.get(_NODE_INPUT, [])]
        operator = _to_text(parts[_NODE_OPERATOR][0])
        if operator == "MatMul" and inputs[1] in weights:
            matrices[_to_text(parts[_NODE_OUTPUT][0])] = inputs[1]
        elif operator == "Add":
            for product, bias in (inputs, inputs[::-1]):
                if product in matrices and bias.endswith(".bias"):
                    weights[f"{bias.removesuffix('.bias')}.weight"] = weights[matrices[product]].T
    return weights


def _read_tensors(tensors: list[Any]) -> Iterator[tuple[str, NDArray[Any]]]:
    for tensor in tensors:
        parts = _read_fields(tensor)
        kind = _TYPES.get(parts[_TENSOR_TYPE][0])
        if kind is not None and _TENSOR_BYTES in parts:
            sides = []
            for part in parts.get(_TENSOR_SIDES, []):
                sides += [part] if isinstance(part, int) else _read_varints(part)
            array = np.frombuffer(parts[_TENSOR_BYTES][0], kind).reshape(sides)
            yield _to_text(parts[_TENSOR_NAME][0]), array


def _read_fields(message: memoryview) -> dict[int, list[Any]]:
    """The values of each field: a number, or bytes that are a text, an array or a message."""
    fields: dict[int, list[Any]] = {}
    at = 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        number, storage = tag >> 3, tag & 7
        value: Any
        if storage == _VARINT:
            value, at = _read_varint(message, at)
        else:
            size, at = _read_varint(message, at) if storage == _BYTES else (_SIZES[storage], at)
            value, at = message[at : at + size], at + size
        fields.setdefault(number, []).append(value)
    return fields


def _read_varints(packed: memoryview) -> list[int]:
    numbers, at = [], 0
    while at < len(packed):
        number, at = _read_varint(packed, at)
        numbers.append(number)
    return numbers


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    """(number, where the next value begins): seven bits per byte, the lowest first."""
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte % _CONTINUES) << shift
        at, shift = at + 1, shift + 7
        if byte < _CONTINUES:
            return number, at


def _to_text(value: memoryview) -> str:
    return bytes(value).decode()
