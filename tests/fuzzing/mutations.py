"""Damage: bytes, JSON, `.npy` files and trees of files, changed by a random generator."""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

#: What parsers stumble over, as text.
TOKENS: tuple[bytes, ...] = (
    b"", b"\x00", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\n", b"\r", b"\r\n",
    b"\t", b",", b",,,,", b'"', b"'", b"\\", b"\\u0000", b"{", b"}", b"[", b"]", b"(", b")", b":",
    b"null", b"true", b"NaN", b"Infinity", b"-Infinity", b"nan", b"inf", b"NA", b"0", b"-1", b"-0",
    b"1e999", b"-1e999", b"1e-999", b"0x10", b"1_000", b"2147483648", b"9223372036854775807",
    b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"9" * 400,
    b"../", b"../../../etc/passwd", b"/dev/zero", b"\x1b[31m", b"$(touch x)", b"<script>", b"%s%n",
    b"\xf0\x9f\x98\x80", b"A" * 5_000, b"[" * 5_000, b"{\"a\":" * 5_000, b"PK\x03\x04", b"PAR1",
    b"\x93NUMPY", b"\x1f\x8b", b"%!PS\n", b"\x80\x04c", b"=", b"#", b"[[", b"]]",
)  # fmt: skip

#: Numbers at the edges of their types.
NUMBERS = (0, 1, 2, 7, 127, 128, 255, 256, 32_767, 65_535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)

#: What stands in a JSON document for text that `json.dumps` cannot write.
_RAW_BYTES = {
    '"@deep-list@"': "[" * 100_000 + "]" * 100_000,
    '"@deep-dict@"': '{"a":' * 100_000 + "1" + "}" * 100_000,
    '"@digits@"': "9" * 5_000,
    '"@surrogate@"': '"\\ud800"',
}


def pick_hostile_value(rng: Random, paths: Sequence[str] = ()) -> Any:
    """A value that the place of another one in JSON; `paths` are files and folders to aim at."""
    simple = [None, True, False, "", "x", "0", "\x00", "\x1b[2J", "a\nb", "A" * 5_000, [], {}]
    numbers = [0, 1, -1, 2, 3, 0.5, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**9, 10**30]
    floats = [float("nan"), float("inf"), float("-inf"), 1e308, -1e-308, 1.0000001]
    nests = [[[]], [None], [0], {"a": 1}, [1, "x", None], {"": {}}, [[1, 2], [3]]]
    files = ["..", "/", "/dev/zero", "/dev/null", "~", "digits", "\x00/x", "a/" * 2_000, *paths]
    return rng.choice([simple, numbers, floats, nests, files, [k.strip('"') for k in _RAW_BYTES]][
        rng.choices(range(6), (5, 6, 3, 3, 3, 2))[0]
    ])  # fmt: skip


def mutate_bytes(rng: Random, data: bytes, steps: int | None = None) -> bytes:
    """One to four changes: flips, splices, cuts, repetitions, tokens, numbers."""
    content = bytearray(data)
    for _ in range(steps or rng.choice((1, 1, 1, 2, 4))):
        rng.choice(_BYTE_CHANGES)(rng, content)
    return bytes(content)


def _position(rng: Random, content: bytearray) -> int:
    """Anywhere, but heads and tails, where formats keep what they say of themselves, more often."""
    n = len(content)
    if not n:
        return 0
    return rng.choice(
        (rng.randrange(n), rng.randrange(min(n, 64)), n - 1 - rng.randrange(min(n, 64)))
    )


def _flip(rng: Random, content: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        if content:
            content[_position(rng, content)] ^= 1 << rng.randrange(8)


def _set_byte(rng: Random, content: bytearray) -> None:
    if content:
        content[_position(rng, content)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))


def _clip(rng: Random, content: bytearray) -> None:
    del content[rng.choice((_position(rng, content), 0, len(content) // 2)) :]


def _drop(rng: Random, content: bytearray) -> None:
    start = _position(rng, content)
    del content[start : start + rng.choice((1, 2, 4, 16, 256))]


def _repeat(rng: Random, content: bytearray) -> None:
    start = _position(rng, content)
    piece = bytes(content[start : start + rng.choice((1, 4, 32, 512))])
    content[start:start] = piece * rng.choice((1, 2, 16, 200))


def _splice(rng: Random, content: bytearray) -> None:
    source, target = _position(rng, content), _position(rng, content)
    length = rng.choice((1, 4, 32, 256))
    content[target : target + length] = content[source : source + length]


def _insert_token(rng: Random, content: bytearray) -> None:
    at, token = _position(rng, content), rng.choice(TOKENS)
    content[at : at + rng.choice((0, 0, 1, len(token)))] = token


def _set_number(rng: Random, content: bytearray) -> None:
    """Overwrite what may be a length or an offset."""
    number, form = rng.choice(NUMBERS), rng.choice(("<B", "<H", "<I", "<Q", ">H", ">I", ">Q"))
    width = struct.calcsize(form)
    at = _position(rng, content)
    content[at : at + width] = struct.pack(form, number & (2 ** (8 * width) - 1))


def _fill(rng: Random, content: bytearray) -> None:
    start, length = _position(rng, content), rng.choice((4, 16, 128))
    stop = min(len(content), start + length)
    content[start:stop] = bytes([rng.choice((0, 0xFF, rng.randrange(256)))]) * (stop - start)


_BYTE_CHANGES: tuple[Callable[[Random, bytearray], None], ...] = (
    _flip, _flip, _set_byte, _clip, _drop, _repeat, _splice, _insert_token, _insert_token,
    _set_number, _fill,
)  # fmt: skip


# -- JSON ------------------------------------------------------------------------------------------


def mutate_json(rng: Random, data: bytes, paths: Sequence[str] = ()) -> bytes:
    """The document with one to three nodes replaced, removed, doubled, renamed or added."""
    try:
        document = json.loads(data)
    except ValueError:
        return mutate_bytes(rng, data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        document = _change_node(rng, document, paths)
    text = json.dumps(document, ensure_ascii=rng.random() < 0.5)
    for name, raw in _RAW_BYTES.items():
        text = text.replace(name, raw)
    return text.encode("utf-8", "surrogatepass")


def _change_node(rng: Random, document: Any, paths: Sequence[str]) -> Any:
    """Walk down at random: near the root as often as in the leaves of a long list."""
    parent, key, node = None, None, document
    while isinstance(node, dict | list) and node and rng.random() < 0.8:
        parent, key = node, rng.choice(list(node) if isinstance(node, dict) else range(len(node)))
        node = parent[key]
    change = rng.randrange(8)
    if parent is None:
        if isinstance(node, dict) and rng.random() < 0.5:
            node[_new_key(rng)] = pick_hostile_value(rng, paths)
            return node
        return pick_hostile_value(rng, paths)
    if change == 0:
        del parent[key]
    elif change == 1 and isinstance(parent, list):
        parent[key:key] = [node] * rng.choice((1, 2, 100))
    elif change == 1 or (change == 2 and isinstance(parent, dict)):
        parent[_new_key(rng)] = parent.pop(key) if change == 2 else pick_hostile_value(rng, paths)
    elif change == 3 and isinstance(node, int | float) and not isinstance(node, bool):
        parent[key] = rng.choice(
            (node + 1, -node, node * 1_000_000, str(node), [node], float(node))
        )
    elif change == 4 and isinstance(node, str):
        parent[key] = rng.choice(
            (node + "x", node[:-1], [node], node * 100, node.upper(), {node: 1})
        )
    elif change == 5 and isinstance(node, list):
        parent[key] = rng.choice((node[:-1], node * 2, node[::-1], [node], dict(enumerate(node))))
    else:
        parent[key] = pick_hostile_value(rng, paths)
    return document


def _new_key(rng: Random) -> str:
    return rng.choice(
        ("", "x", "threads", "cache", "progress", "method", "labels", "place", "seed", "__class__",
         "pred_probs", "classes", "ids", "verdicts", "kind", "path", "self")
    )  # fmt: skip


# -- arrays ----------------------------------------------------------------------------------------

_DTYPES = (
    "|b1", "<i1", "<u2", "<i4", "<i8", "<u8", ">i4", "<f2", "<f4", "<f8", ">f8", "<c16", "<U3",
    "|S4", "|V8", "<M8[s]", "<m8[ns]", "|O", "<f16", "<q", "f", "int", "no type", "|S0",
    "<U999999999",
)  # fmt: skip


def mutate_npy(rng: Random, data: bytes) -> bytes:
    """Other values, another shape or type, another header, or other bytes."""
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:
        return mutate_bytes(rng, data)
    kind = rng.randrange(10)
    if kind < 5:
        with np.errstate(all="ignore"):
            return write_npy(_change_array(rng, array))
    return _change_header(rng, data, array) if kind < 8 else mutate_bytes(rng, data)


def write_npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def _change_array(rng: Random, array: Any) -> Any:
    kind = rng.randrange(9)
    if kind < 4 and array.size and array.dtype.kind in "biuf":
        array = array.copy()
        flat, at = (
            array.reshape(-1),
            [rng.randrange(array.size) for _ in range(rng.choice((1, 1, 9)))],
        )
        if array.dtype.kind == "f":
            flat[at] = rng.choice((np.nan, np.inf, -np.inf, -1, 0, 2, 1e30, 5e-324, 1 + 1e-6))
        elif array.dtype.kind == "b":
            flat[at] = ~flat[at]
        else:
            edges = np.iinfo(array.dtype)
            flat[at] = rng.choice(
                (edges.max, edges.min, flat.max() + 1, 10**4 % (edges.max + 1), 0)
            )
        return array
    if kind == 4:
        wide = rng.choice(("<i8", "<u8", "<i2", "<f4", "<f8", ">f4", ">i4", "|b1", "<U5"))
        cast_array = array.astype(wide)
        if cast_array.size and cast_array.dtype.kind in "iu":
            edges = np.iinfo(cast_array.dtype)
            cast_array.reshape(-1)[rng.randrange(cast_array.size)] = rng.choice(
                (edges.max, edges.min)
            )
        return cast_array
    if kind == 5:
        rows = rng.choice((0, 1, max(len(array) - 1, 0), len(array) // 2)) if array.ndim else 0
        return array[:rows] if array.ndim else array
    if kind == 6:
        return np.concatenate([array, array[: rng.choice((1, 3, 50))]]) if array.ndim else array
    if kind == 7:
        return rng.choice((array.reshape(-1), array[None], array[..., None], array.T, array.sum()))
    empty = rng.choice(((), (0,), (0, 0), (3, 0), (0, 3), (1,), (1, 1), (0, 5, 3)))
    return np.zeros(empty, array.dtype)


def _change_header(rng: Random, data: bytes, array: Any) -> bytes:
    """A header that says something else of the same bytes."""
    descr: Any = array.dtype.str
    shape: Any = array.shape
    fortran: Any = False
    n = int(array.size)
    kind = rng.randrange(6)
    if kind == 0:
        descr = rng.choice((*_DTYPES, [("a", "<i4"), ("b", "|O")], [("a", "<f4")] * 2, None, 7))
    elif kind == 1:
        edges = (n + 1, n - 1, 2**31, 2**40, 2**62, -1, 0)
        shape = rng.choice(
            ((), (rng.choice(edges),), (*shape[:-1], rng.choice(edges)), shape * 12, (1,) * 33,
             (2**32, 2**32), (2**31, 2**33), (0, 2**62), (-1, -n), ("x",), (1.5,), (True,), [n], n,
             (2**62, 4), (None,))
        )  # fmt: skip
    elif kind == 2:
        fortran = rng.choice((True, 1, None, "x"))
    elif kind == 3:
        text = rng.choice(
            ("(" * 3_000, "{'descr': " * 500, "{", "", "\x00", "{'descr': '<f4'}", "[]",
             "1" * 9_000, "{'descr':'<f4','fortran_order':False,'shape':(9**9**9,)}", "'''", "é",
             "{'descr': '<i4', 'fortran_order': False, 'shape': (0x7, ), 'more': 1}", "0777")
        )  # fmt: skip
        return _with_header(rng, data, text)
    body = f"{{'descr': {descr!r}, 'fortran_order': {fortran!r}, 'shape': {shape!r}, }}"
    return _with_header(rng, data, body)


def _with_header(rng: Random, data: bytes, text: str) -> bytes:
    start = 10 + int.from_bytes(data[8:10], "little")
    header = text.encode("utf-8") + b"\n"
    version = rng.choice((1, 1, 1, 2, 3, rng.randrange(256)))
    length = rng.choice((len(header),) * 6 + NUMBERS)
    prefix = b"\x93NUMPY" + bytes([version, rng.choice((0, 0, 0, 1))])
    size = (
        struct.pack("<H", length & 0xFFFF)
        if version == 1
        else struct.pack("<I", length & 2**32 - 1)
    )
    return prefix + size + header + data[start:]


# -- trees of files --------------------------------------------------------------------------------


def damage_tree(
    rng: Random,
    folder: Path,
    mutate: Callable[[Random, Path, bytes], bytes],
    *,
    names: Sequence[str] = (),
    paths: Sequence[str] = (),
) -> str:
    """Change the content of one or two files below, or what lies at their names.

    `names` are the files to choose among (all unless given), `paths` what links may lead to.
    Returns what was done.
    """
    mutations = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        files = sorted(
            path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
        )
        files = [
            file for file in files if not names or file.relative_to(folder).as_posix() in names
        ]
        if not files:
            break
        file = rng.choice(files)
        name = file.relative_to(folder).as_posix()
        if rng.random() < 0.9:
            before = file.read_bytes()
            after = mutate(rng, file, before)
            file.write_bytes(after)
            mutations.append(f"{name}: {len(before)} -> {len(after)} bytes")
        else:
            mutations.append(f"{name}: {_replace_entry(rng, file, files, paths)}")
    return "; ".join(mutations)


def _replace_entry(rng: Random, file: Path, files: Sequence[Path], paths: Sequence[str]) -> str:
    what = rng.choice(("gone", "empty", "folder", "pipe", "device", "loop", "swap", "link", "copy"))
    other = rng.choice(files)
    if what == "empty":
        file.write_bytes(b"")
    elif what == "swap":
        mine, theirs = file.read_bytes(), other.read_bytes()
        file.write_bytes(theirs)
        other.write_bytes(mine)
    elif what == "copy":
        shutil.copyfile(
            file, file.with_name(rng.choice((".hidden", "x" + file.name, file.name + "~")))
        )
    else:
        file.unlink()
        if what == "folder":
            file.mkdir()
        elif what == "pipe":
            os.mkfifo(file)
        elif what != "gone":
            file.symlink_to({"device": "/dev/zero", "loop": file.name}.get(what) or rng.choice(
                (*paths, str(other), "/nowhere", "..")
            ))  # fmt: skip
    return what
