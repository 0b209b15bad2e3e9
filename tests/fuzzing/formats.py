"""Damage inside formats that compress or check their content, where flipped bits get no further."""

from __future__ import annotations

import contextlib
import gzip
import io
import sqlite3
import struct
import tarfile
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from random import Random

from fuzzing.mutations import NUMBERS, mutate_bytes, mutate_json, mutate_npy


def mutate_content(rng: Random, file: Path, data: bytes, paths: Sequence[str] = ()) -> bytes:
    """Damage that fits a file's name: structural where the format is known, else of bytes."""
    if rng.random() < 0.7:
        with contextlib.suppress(Exception):  # damaged already: not even we can read it
            return _mutate_structure(rng, file, data, paths)
    return mutate_bytes(rng, data)


def _mutate_structure(rng: Random, file: Path, data: bytes, paths: Sequence[str]) -> bytes:
    name = file.name.lower()
    if name.endswith(".json") or name in (".zarray", ".zattrs", ".zgroup", ".zmetadata"):
        return mutate_json(rng, data, paths)
    if name.endswith(".npy"):
        return mutate_npy(rng, data)
    if name.endswith((".npz", ".zip", ".xlsx")):
        return mutate_zip(rng, data)
    if name.endswith((".tar.gz", ".tgz")):
        return mutate_tar(rng, data)
    if name.endswith(".gz"):
        return mutate_gzip(rng, data, file.with_name(file.name[:-3]))
    if name.endswith(".png"):
        return mutate_png(rng, data)
    if name.endswith(".sqlite"):
        return mutate_sqlite(rng, data)
    return mutate_bytes(rng, data)


def mutate_gzip(rng: Random, data: bytes, inner: Path) -> bytes:
    """Damaged content, soundly compressed; twice the stream; or a stream of many zeros."""
    content = gzip.decompress(data)
    kind = rng.randrange(6)
    if kind == 0:
        return data + data
    if kind == 1:
        return gzip.compress(content + bytes(2**22), mtime=0)
    return gzip.compress(mutate_content(rng, inner, content), mtime=0)


def mutate_zip(rng: Random, data: bytes) -> bytes:
    """An archive with a member damaged, renamed, doubled, swollen or missing."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(one.filename, archive.read(one)) for one in archive.infolist()]
    at = rng.randrange(len(members))
    name, content = members[at]
    kind = rng.randrange(8)
    if kind < 4:
        members[at] = name, mutate_content(rng, Path(name), content)
    elif kind == 4:
        members[at] = (
            rng.choice(("../x.png", "/x.png", "a\\b", "\x00", "", "." + name, name + "/")),
            content,
        )
    elif kind == 5:
        members.append((name, rng.choice(members)[1]))
    elif kind == 6:
        members[at] = name, content + bytes(rng.choice((1, 2**20, 2**24)))
    else:
        del members[at]
    file = io.BytesIO()
    way = rng.choice(
        (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    )
    with zipfile.ZipFile(file, "w", way) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name twice is meant
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, way)
    whole = bytearray(file.getvalue())
    if rng.random() < 0.2:  # sizes, offsets, encryption flags of a member
        head = whole.find(rng.choice((b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06")))
        if head >= 0:
            whole[head + 4 + rng.randrange(40)] = rng.choice((0, 1, 9, 0xFF, rng.randrange(256)))
    return bytes(whole)


def mutate_tar(rng: Random, data: bytes) -> bytes:
    """An archive with a member damaged, renamed, doubled, missing, or no file at all."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = [
            (one, file.read()) for one in archive if (file := archive.extractfile(one)) is not None
        ]
    at = rng.randrange(len(members))
    about, content = members[at]
    kind = rng.randrange(8)
    if kind < 4:
        members[at] = about, mutate_content(rng, Path(about.name), content)
    elif kind == 4:
        about.name = rng.choice(("../x", "/x", "", "x" * 300, "\x01", about.name + "/y"))
    elif kind == 5:
        members.append((about, rng.choice(members)[1]))
    elif kind == 6:
        about.type = rng.choice(
            (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)
        )
        about.linkname = rng.choice(("/etc/passwd", about.name, "../x", members[0][0].name))
    else:
        del members[at]
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        for about, content in members:
            about.size = len(content) if about.isreg() else 0
            archive.addfile(about, io.BytesIO(content) if about.isreg() else None)
    return file.getvalue()


def mutate_png(rng: Random, data: bytes) -> bytes:
    """A chunk damaged, with the checksum that it then needs."""
    chunks, at = [], 8
    while at + 8 <= len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    number = rng.randrange(len(chunks))
    kind, body = chunks[number]
    what = rng.randrange(6)
    if what == 0 and kind == b"IHDR":
        place = rng.choice((0, 4))
        size = struct.pack(">I", rng.choice(NUMBERS) & 2**32 - 1)
        chunks[number] = kind, body[:place] + size + body[place + 4 :]
    elif what == 1:
        text = rng.choice((b"a\x00" + zlib.compress(bytes(2**22)), b"", b"\xff" * 90))
        chunks.insert(
            number, (rng.choice((b"zTXt", b"iTXt", b"iCCP", b"tEXt", b"eXIf", b"acTL")), text)
        )
    elif what == 2:
        chunks.insert(number, chunks[number])
    elif what == 3 and kind == b"IDAT":
        chunks[number] = kind, zlib.compress(mutate_bytes(rng, zlib.decompress(body)), 1)
    elif what == 4:
        del chunks[number]
    else:
        chunks[number] = rng.choice((kind, kind, kind.swapcase(), b"IEND")), mutate_bytes(rng, body)
    parts = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return data[:8] + b"".join(parts)


#: What a stranger may have done to a file of decisions. `?` is a number, a text, or nothing.
_STATEMENTS = (
    "UPDATE changes SET sample = ? WHERE number = 1",
    "UPDATE changes SET action = ? WHERE number = 1",
    "UPDATE changes SET label = ?",
    "UPDATE changes SET version = ?",
    "UPDATE changes SET reviewer = ?",
    "UPDATE changes SET at = ?",
    "UPDATE changes SET undoes = ?",
    "UPDATE changes SET number = ? WHERE number = 1",
    "UPDATE latest SET sample = ? WHERE sample = (SELECT min(sample) FROM latest)",
    "UPDATE latest SET number = ?",
    "UPDATE about SET value = ? WHERE key = 'samples'",
    "UPDATE about SET value = ? WHERE key = 'classes'",
    "UPDATE about SET value = ?",
    "DELETE FROM about WHERE key = 'classes'",
    "DELETE FROM about",
    "DELETE FROM changes",
    "DELETE FROM latest",
    "INSERT INTO about VALUES ('more', ?)",
    "INSERT OR REPLACE INTO latest VALUES (?, 1)",
    "INSERT OR REPLACE INTO undone VALUES (?)",
    "DROP TABLE about",
    "DROP TABLE changes",
    "DROP TABLE undone",
    "ALTER TABLE changes RENAME TO other",
    "ALTER TABLE changes ADD COLUMN more TEXT",
    "ALTER TABLE latest RENAME COLUMN number TO numbers",
    "CREATE TABLE more (x)",
    "CREATE VIEW endless AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
    " SELECT i AS number, i AS sample FROM n",
    "CREATE TRIGGER own AFTER INSERT ON changes BEGIN DELETE FROM latest; END",
    "CREATE INDEX own ON changes (abs(sample))",
    "PRAGMA user_version = 77",
    "PRAGMA application_id = 77",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA page_size = 65536",
)
#: A table in whose place an endless view stands, with the columns that are asked for.
_VIEWS = {
    "latest": "number, sample",
    "about": "key, value",
    "undone": "batch",
    "changes": "number, batch, sample, action, label, reviewer, tab, at, version, undoes",
}


def mutate_sqlite(rng: Random, data: bytes) -> bytes:
    """Other rows, another schema, a view that never ends."""
    values = (None, -1, 0, 1, 59, 60, 2**31, 2**63 - 1, 1.5, "", "keep", "x", b"\xff", "[]", "[1]",
              '"x"', "null", "{}", "1e400", "[" * 3_000, "A" * 5_000)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "decisions.sqlite")
        path.write_bytes(data)
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("PRAGMA journal_mode = DELETE")
                if rng.random() < 0.25:
                    name = rng.choice(list(_VIEWS))
                    columns = ", ".join(f"i AS {one}" for one in _VIEWS[name].split(", "))
                    connection.execute(f"DROP TABLE {name}")
                    connection.execute(
                        f"CREATE VIEW {name} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL"
                        f" SELECT i + 1 FROM n) SELECT {columns} FROM n"
                    )
                for _ in range(rng.choice((1, 1, 2, 3))):
                    statement = rng.choice(_STATEMENTS)
                    connection.execute(statement, (rng.choice(values),) * statement.count("?"))
        finally:
            connection.close()
        return path.read_bytes()
