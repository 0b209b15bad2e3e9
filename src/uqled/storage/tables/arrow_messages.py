"""Reads the sizes that the messages of an Arrow file or stream claim, before any is unpacked.

Each packed buffer begins with the length that it unpacks to, and Arrow allocates so much at once.
The messages' metadata are flatbuffers, of which only the places of the buffers are read here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

_DICTIONARY, _BATCH = 2, 3  # kinds of messages that have buffers
#: Numbers of the fields that are read.
_MESSAGE_KIND, _MESSAGE_HEADER = 1, 2
_DICTIONARY_DATA = 1
_BATCH_LENGTH, _BATCH_BUFFERS, _BATCH_COMPRESSION = 0, 2, 3
_BUFFER_BYTES = 16  # of the place and the length of a buffer
_NOT_PACKED = -1  # in the place of a length


def measure_messages(stream: Any) -> Iterator[tuple[int, int]]:
    """(rows, bytes when unpacked) that each message of a stream claims."""
    import pyarrow as pa

    for message in pa.ipc.MessageReader.open_stream(stream):
        yield _measure_message(message.metadata.to_pybytes(), message.body)


def _measure_message(metadata: bytes, body: Any) -> tuple[int, int]:
    root = _Table(metadata, _unpack_number("<I", metadata, 0))
    kind = root.read_number("<B", _MESSAGE_KIND)
    if kind not in (_DICTIONARY, _BATCH):
        return 0, 0
    header = root.follow_field(_MESSAGE_HEADER)
    batch = header.follow_field(_DICTIONARY_DATA) if kind == _DICTIONARY else header
    rows = batch.read_number("<q", _BATCH_LENGTH)
    is_compressed, total = batch.has(_BATCH_COMPRESSION), 0
    for start, length in batch.read_buffers():
        size = length
        if is_compressed and length >= 8:
            claim = _unpack_number("<q", body, start)
            size = length if claim == _NOT_PACKED else claim
        if size < 0 or rows < 0:
            raise ValueError(f"a message claims {size} bytes and {rows} rows")
        total += size
    return rows, total


class _Table:
    """A table of a flatbuffer: its fields are found by way of a list of their places."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._fields = at - _unpack_number("<i", data, at)
        self._count = (_unpack_number("<H", data, self._fields) - 4) // 2

    def _find_field(self, field: int) -> int:
        """Where a field is; 0 if it is left out."""
        if field >= self._count:
            return 0
        offset = _unpack_number("<H", self._data, self._fields + 4 + 2 * field)
        return self._at + offset if offset else 0

    def has(self, field: int) -> bool:
        return self._find_field(field) != 0

    def read_number(self, form: str, field: int) -> int:
        place = self._find_field(field)
        return _unpack_number(form, self._data, place) if place else 0

    def follow_field(self, field: int) -> _Table:
        place = self._find_field(field)
        if not place:
            raise ValueError("a message has no content")
        return _Table(self._data, place + _unpack_number("<I", self._data, place))

    def read_buffers(self) -> Iterator[tuple[int, int]]:
        """(start, length) of each buffer in the message's body."""
        place = self._find_field(_BATCH_BUFFERS)
        if place:
            place += _unpack_number("<I", self._data, place)
            for number in range(_unpack_number("<I", self._data, place)):
                at = place + 4 + _BUFFER_BYTES * number
                yield _unpack_number("<q", self._data, at), _unpack_number("<q", self._data, at + 8)


def _unpack_number(form: str, data: Any, at: int) -> int:
    if at < 0:
        raise ValueError("a message leads outside of itself")
    number: int = struct.unpack_from(form, data, at)[0]
    return number
