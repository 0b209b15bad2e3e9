"""The folder of a detection in parts, alone in reading and writing it.

    detection.json           what was asked of what: another detection is refused
    work/000012-sweep-1.bin  what a sweep found in one part, until the detection is finished
    issues/000012.parquet    the result: one row per sample of the part
    joint.npz                estimated counts, given x true, sparse
    result.json              written last: how many samples and flags

Each file is written whole or not at all, by the task that computes it, so a task that is lost or
repeated does no harm and a detection whose driver died continues.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError, InputError
from uqled.places import Place

if TYPE_CHECKING:
    import pandas as pd


#: Read at once of a file: its list, and all of a small one.
_HEAD_BYTES = 2**16


@dataclass(frozen=True)
class Store:
    """One detection's folder; small and picklable."""

    place: Place

    @classmethod
    def begin(cls, out: Any, asked: Mapping[str, Any]) -> Store:
        """A new detection, or the same one again."""
        store = cls(Place.of(out))
        store.refuse_another(asked)
        if not (store.place / "detection.json").exists():
            store._write_json("detection.json", asked)
        return store

    def refuse_another(self, asked: Mapping[str, Any]) -> None:
        """Raise if the folder holds anything but what was begun of the same detection."""
        if (self.place / "detection.json").exists():
            before, now = self._read_json("detection.json"), json.loads(json.dumps(asked))
            changed = sorted(k for k in before.keys() | now.keys() if before.get(k) != now.get(k))
            if changed:
                raise InputError(
                    "out",
                    f"{self.place} holds a detection with other {' and '.join(changed)}",
                    "Choose another folder, or repeat what was asked to continue that one",
                )
        elif self.place.exists() and (not self.place.is_folder() or self.place.names()):
            raise InputError(
                "out", f"{self.place} exists and is no detection", "Choose a new or empty folder"
            )

    @classmethod
    def open(cls, folder: Any) -> Store:
        """A finished detection."""
        store = cls(Place.of(folder))
        if not store.is_finished:
            begun = (store.place / "detection.json").exists()
            raise FileError(
                f"folder {str(store.place)!r}",
                "holds a detection that is not finished" if begun else "holds no detection",
                "Repeat the command that began it" if begun else "Name a folder with result.json",
            )
        return store

    @property
    def is_finished(self) -> bool:
        return (self.place / "result.json").exists()

    # -- while it runs -----------------------------------------------------------------------------

    def _work(self, part: int, stage: str) -> Place:
        return self.place / "work" / f"{part:06d}-{stage}.bin"

    def has(self, part: int, stage: str) -> bool:
        return self._work(part, stage).exists()

    def write(self, part: int, stage: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._work(part, stage).write(packed(arrays))

    def read(self, part: int, stage: str, names: list[str] | None = None) -> dict[str, Any]:
        """The arrays, or those named, of which alone is read."""
        return unpacked(self._work(part, stage), names)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Say that all is there, and remove what was needed on the way."""
        self._write_json("result.json", result)
        self.tidy()

    def tidy(self) -> None:
        """Remove what a finished detection does not need."""
        (self.place / "work").remove_folder()

    # -- what was found ----------------------------------------------------------------------------

    def _issues(self, part: int) -> Place:
        return self.place / "issues" / f"{part:06d}.parquet"

    def has_issues(self, part: int) -> bool:
        return self._issues(part).exists()

    def write_issues(self, part: int, frame: pd.DataFrame) -> None:
        file = io.BytesIO()
        frame.to_parquet(file, index=False)
        self._issues(part).write(file.getvalue())

    def read_issues(self, part: int, columns: list[str] | None = None) -> pd.DataFrame:
        import pandas as pd

        place = self._issues(part)
        if not place.exists():
            raise FileError(f"file {str(place)!r}", "is missing", "Repeat the detection")
        return pd.read_parquet(io.BytesIO(place.read()), columns=columns)

    def write_joint(self, shape: tuple[int, int], given: Any, true: Any, counts: Any) -> None:
        file = io.BytesIO()
        np.savez(file, shape=np.array(shape), given=given, true=true, counts=counts)
        (self.place / "joint.npz").write(file.getvalue())

    def read_joint(self) -> dict[str, NDArray[Any]]:
        with np.load(io.BytesIO((self.place / "joint.npz").read())) as archive:
            return {name: archive[name] for name in archive.files}

    def asked(self) -> dict[str, Any]:
        return self._read_json("detection.json")

    def result(self) -> dict[str, Any]:
        return self._read_json("result.json")

    def _read_json(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.place / name).read())
        return found

    def _write_json(self, name: str, content: Any) -> None:
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (self.place / name).write(text.encode())


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays in one piece: the length of the list, the list, then one array after the other.

    Not `.npz`: NumPy parses its headers with `ast`, which Python 3.11 cannot do in two threads at a
    time, and a single array could not be read out of it alone.
    """
    solid = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    listed, at = {}, 0
    for name, array in solid.items():
        listed[name] = [array.dtype.str, list(array.shape), at]
        at += array.nbytes
    header = json.dumps(listed).encode()
    every = (array.tobytes() for array in solid.values())
    return b"".join([len(header).to_bytes(8, "little"), header, *every])


def unpacked(place: Place, names: list[str] | None = None) -> dict[str, NDArray[Any]]:
    """Arrays that `packed` put together, all or those named: two reads, one if they are small."""
    head = place.read(0, _HEAD_BYTES)
    length = int.from_bytes(head[:8], "little")
    if len(head) < 8 + length:
        head = place.read(0, 8 + length)
    first = 8 + length
    listed = {
        name: (np.dtype(dtype), shape, first + at)
        for name, (dtype, shape, at) in json.loads(head[8:first]).items()
    }
    wanted = {name: listed[name] for name in (listed if names is None else names)}
    ends = {name: at + dtype.itemsize * prod(shape) for name, (dtype, shape, at) in wanted.items()}
    start = min((at for _, _, at in wanted.values()), default=0)
    stop = max(ends.values(), default=0)
    span = head[start:stop] if stop <= len(head) else bytearray(stop - start)
    if isinstance(span, bytearray):
        place.read_into(memoryview(span), start)
    return {
        name: np.frombuffer(span, dtype, prod(shape), at - start).reshape(shape)
        for name, (dtype, shape, at) in wanted.items()
    }
