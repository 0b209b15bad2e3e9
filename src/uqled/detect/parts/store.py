"""The folder of a detection in parts; no other module reads or writes it.

    detection.json           the inputs and options: another detection is refused
    work/000012-sweep-1.bin  the columns of a sweep over one part, until the detection is finished
    issues/000012.parquet    the result: one row per sample of the part
    joint.npz                estimated counts, given x true, sparse
    result.json              written last: how many samples and flags

Each file is written whole or not at all, by the task that computes it, so a task that is lost or
repeated does no harm and a detection whose driver died continues. Whatever is read back is checked:
JSON for what it must hold, a part's file against a digest of its bytes.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import FileError, InputError
from uqled.limits import check_limit
from uqled.storage.arrays.numpy_files import open_npz
from uqled.storage.atomic import remove_leftovers
from uqled.storage.location import Location
from uqled.storage.lock import lock_folder
from uqled.storage.reading import explain_file_problems, name_file, name_folder, parse_json
from uqled.storage.tables.parquet_tables import read_parquet_stream

if TYPE_CHECKING:
    import pandas as pd


#: Bytes of the first read of a file: its index, and all of a small file.
_HEAD_BYTES = 2**16


@dataclass(frozen=True)
class Store:
    """One detection's folder; small and picklable."""

    place: Location

    @classmethod
    @contextmanager
    def begin(cls, out: Any, fingerprint: Mapping[str, Any]) -> Iterator[Store]:
        """Begin or continue a detection, exclusively for this process.

        A store without locks (`s3://`) cannot keep a second process out.
        """
        store = cls(Location.of(out))
        store.refuse_another(fingerprint)
        if not store.place.is_local:
            yield store._begin(fingerprint)
            return
        store.place.make_folder()
        with lock_folder(store.place.path, "detection"):
            yield store._begin(fingerprint)
            remove_leftovers(store.place.path, deep=True)

    def _begin(self, fingerprint: Mapping[str, Any]) -> Store:
        self.refuse_another(fingerprint)
        if not (self.place / "detection.json").exists():
            self._write_json("detection.json", fingerprint)
        return self

    def refuse_another(self, fingerprint: Mapping[str, Any]) -> None:
        """Raise if the folder holds anything but the beginning of the same detection."""
        if (self.place / "detection.json").exists():
            before, now = self._read_json("detection.json"), json.loads(json.dumps(fingerprint))
            changed_options = sorted(
                k for k in before.keys() | now.keys() if before.get(k) != now.get(k)
            )
            if changed_options:
                raise InputError(
                    "out",
                    f"{self.place} holds a detection with different "
                    f"{' and '.join(changed_options)}",
                    "Choose another folder, or repeat its options to continue that one",
                )
        elif self.place.exists() and (not self.place.is_folder() or self.place.names()):
            raise InputError(
                "out", f"{self.place} exists and is not a detection", "Choose a new or empty folder"
            )

    @classmethod
    def open(cls, folder: Any) -> Store:
        """A finished detection."""
        store = cls(Location.of(folder))
        if not store.is_finished:
            has_begun = (store.place / "detection.json").exists()
            raise FileError(
                name_folder(store.place),
                "holds a detection that is not finished" if has_begun else "holds no detection",
                "Repeat the command that began it"
                if has_begun
                else "Name a folder with result.json",
            )
        return store

    @property
    def is_finished(self) -> bool:
        return (self.place / "result.json").exists()

    # -- while it runs -----------------------------------------------------------------------------

    def _locate_columns(self, part: int, stage: str) -> Location:
        return self.place / "work" / f"{part:06d}-{stage}.bin"

    def has(self, part: int, stage: str) -> bool:
        return self._locate_columns(part, stage).exists()

    def write(self, part: int, stage: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        # The remains of a power loss are recognised by their digests, and can be computed again.
        self._locate_columns(part, stage).write(pack_arrays(arrays), durable=False)

    def read(self, part: int, stage: str, names: list[str] | None = None) -> dict[str, Any]:
        """Read the arrays, or only the named ones."""
        return unpack_arrays(self._locate_columns(part, stage), names)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Mark the detection as finished, and remove temporary files."""
        self._write_json("result.json", result)
        self.tidy()

    def tidy(self) -> None:
        """Remove the temporary files of a finished detection."""
        (self.place / "work").remove_folder()

    # -- the result -------------------------------------------------------------------------------

    def _locate_issues(self, part: int) -> Location:
        return self.place / "issues" / f"{part:06d}.parquet"

    def has_issues(self, part: int) -> bool:
        return self._locate_issues(part).exists()

    def write_issues(self, part: int, frame: pd.DataFrame) -> None:
        file = io.BytesIO()
        frame.to_parquet(file, index=False)
        self._locate_issues(part).write(file.getvalue())

    def read_issues(self, part: int, columns: list[str] | None = None) -> pd.DataFrame:
        place = self._locate_issues(part)
        if not place.exists():
            raise FileError(name_file(place), "is missing", "Repeat the detection")
        with explain_file_problems(str(place), "Repeat the detection"):
            check_limit("memory_bytes", place.size(), name_file(str(place)))
            file = io.BytesIO(place.read())
            table = read_parquet_stream(file, name_file(str(place)), columns)
            frame: pd.DataFrame = table.to_pandas()
            return frame

    def write_joint(self, shape: tuple[int, int], given: Any, true: Any, counts: Any) -> None:
        file = io.BytesIO()
        np.savez(file, shape=np.array(shape), given=given, true=true, counts=counts)
        (self.place / "joint.npz").write(file.getvalue())

    def read_joint(self) -> dict[str, NDArray[Any]]:
        place = self.place / "joint.npz"
        with (
            explain_file_problems(str(place), "Repeat the detection"),
            open_npz(str(place), io.BytesIO(place.read())) as archive,
        ):
            joint = {name: archive.read(name) for name in ("shape", "given", "true", "counts")}
            K = int(joint["shape"][0])
            check_limit("memory_bytes", 8 * K, name_file(str(place)))
            pairs = [joint[name] for name in ("given", "true", "counts")]
            if any(one.ndim != 1 or one.dtype.kind not in "iu" for one in pairs):
                raise ValueError("its pairs are no columns of whole numbers")
            if len({len(one) for one in pairs}) > 1 or any(
                len(one) and not 0 <= one.min() <= one.max() < K for one in pairs[:2]
            ):
                raise ValueError("its pairs do not fit its classes")
            return joint

    def result(self) -> dict[str, Any]:
        """What `result.json` says."""
        about = self._read_json("result.json")
        kinds = {"samples": int, "parts": int, "method": str, "flagged": dict}
        for key, kind in kinds.items():
            if type(about.get(key)) is not kind:
                raise FileError(
                    name_file(str(self.place / "result.json")),
                    f"has {about.get(key)!r:.40} as {key!r}",
                    "Repeat the detection",
                )
        return about

    def _read_json(self, name: str) -> dict[str, Any]:
        place = self.place / name
        check_limit("json_bytes", place.size(), name_file(str(place)))
        with explain_file_problems(str(place), "Repeat the detection in another folder"):
            content = parse_json(place.read())
            if not isinstance(content, dict):
                raise TypeError(f"it holds a {type(content).__name__}")
            return content

    def _write_json(self, name: str, content: Any) -> None:
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (self.place / name).write(text.encode())


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Pack arrays into bytes: the length of the index, the index, then one array after another.

    Not `.npz`: NumPy parses its headers with `ast`, which Python 3.11 cannot do in two threads at a
    time, and a single array could not be read out of it alone.
    """
    solid = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    contents = {name: array.tobytes() for name, array in solid.items()}
    entries, at = {}, 0
    for name, array in solid.items():
        entries[name] = [array.dtype.str, list(array.shape), at, _compute_digest(contents[name])]
        at += array.nbytes
    header = json.dumps(entries).encode()
    return b"".join([len(header).to_bytes(8, "little"), header, *contents.values()])


def unpack_arrays(place: Location, names: list[str] | None = None) -> dict[str, NDArray[Any]]:
    """Arrays that `pack_arrays` put together, all or those named: two reads, one if small."""
    with explain_file_problems(str(place), "Remove it, and repeat the detection"):
        size = place.size()
        head = place.read(0, _HEAD_BYTES)
        length = int.from_bytes(head[:8], "little")
        if not 2 <= length <= size - 8:
            raise ValueError("its list is cut short")
        if len(head) < 8 + length:
            head = place.read(0, 8 + length)
        first = 8 + length
        entries = parse_json(head[8:first])
        if missing := [name for name in names or [] if name not in entries]:
            raise ValueError(f"it lacks {missing[0]!r}")
        arrays = {
            name: _PackedArray.of(entries[name], first, size)
            for name in (entries if names is None else names)
        }
        start = min((one.start for one in arrays.values()), default=0)
        stop = max((one.stop for one in arrays.values()), default=0)
        span = head[start:stop] if stop <= len(head) else bytearray(stop - start)
        if isinstance(span, bytearray):
            place.read_into(memoryview(span), start)
        return {name: one.array(span, start) for name, one in arrays.items()}


@dataclass(frozen=True)
class _PackedArray:
    """Where one array lies in a part's file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int
    digest: str

    @classmethod
    def of(cls, entry: Any, first: int, size: int) -> _PackedArray:
        """An entry of the list, refused where it leads out of the file."""
        text, shape, at, digest = entry
        dtype = np.dtype(str(text))
        if dtype.kind not in "biuf" or any(type(n) is not int or n < 0 for n in [*shape, at]):
            raise ValueError(f"it lists an array of {text!r:.20} and shape {shape!r:.60}")
        start = first + at
        stop = start + dtype.itemsize * prod(shape)
        if stop > size:
            raise ValueError("it is cut short")
        return cls(dtype, tuple(shape), start, stop, str(digest))

    def array(self, span: bytes | bytearray, begin: int) -> NDArray[Any]:
        """The array, out of the file's bytes from `begin` on."""
        content = memoryview(span)[self.start - begin : self.stop - begin]
        if _compute_digest(content) != self.digest:
            raise ValueError("its bytes are not those that were written")
        return np.frombuffer(content, self.dtype).reshape(self.shape)


def _compute_digest(content: Any) -> str:
    """Detects damage, not tampering: whoever can write the file can write this too."""
    return f"{zlib.crc32(content):08x}"
