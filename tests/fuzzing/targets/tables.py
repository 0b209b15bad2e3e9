"""Targets: tables in JSON, spreadsheets, Arrow and compressed files, folders of texts, settings."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyarrow as pa

from fuzzing.case import Scene, Target
from fuzzing.targets.data import CLASSES, check_dataset, damage_files, make_frame
from uqled.cli.settings import read_settings
from uqled.data import load

_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_MIME = "application/vnd.openxmlformats-officedocument.spreadsheetml"
#: A workbook's files beside its sheet, as little as a reader asks for.
WORKBOOK = {
    "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
    '<Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_MIME}.sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_MIME}.worksheet+xml"/>'
    "</Types>",
    "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="r1" Type="{_OFFICE}/officeDocument" Target="xl/workbook.xml"/>'
    "</Relationships>",
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
    f'<Relationship Id="r1" Type="{_OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>'
    "</Relationships>",
    "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}">'
    '<sheets><sheet name="data" sheetId="1" r:id="r1"/></sheets></workbook>',
}


def write_spreadsheet(path: Path) -> None:
    frame = make_frame()
    lines = []
    for number, row in enumerate([frame.columns.tolist(), *frame.values.tolist()], 1):
        cells = "".join(
            f'<c r="{column}{number}" t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
            if isinstance(cell, str)
            else f'<c r="{column}{number}"><v>{cell}</v></c>'
            for column, cell in zip("ABCD", row, strict=True)
        )
        lines.append(f'<row r="{number}">{cells}</row>')
    sheet = f'<worksheet xmlns="{_SHEET}"><sheetData>{"".join(lines)}</sheetData></worksheet>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (WORKBOOK | {"xl/worksheets/sheet1.xml": sheet}).items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{content}')


def _write_arrow(path: Path, *, is_stream: bool = False, compression: str | None = None) -> None:
    table = pa.Table.from_pandas(make_frame(), preserve_index=False)
    options = pa.ipc.IpcWriteOptions(compression=compression)
    make_writer = pa.ipc.new_stream if is_stream else pa.ipc.new_file
    with make_writer(str(path), table.schema, options=options) as writer:
        for batch in table.to_batches(max_chunksize=12):
            writer.write_batch(batch)


def _make_saved_dataset(folder: Path) -> None:
    """As `save_to_disk` of two splits leaves it."""
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    for split in ("train", "test"):
        (folder / split).mkdir()
        name = "data-00000-of-00001.arrow"
        _write_arrow(folder / split / name, is_stream=True)
        state = {"_data_files": [{"filename": name}], "_fingerprint": "abc", "_split": split}
        (folder / split / "state.json").write_text(json.dumps(state))


def _make_text_folder(folder: Path) -> None:
    for name in CLASSES:
        (folder / "data" / name).mkdir(parents=True)
        for i in range(3):
            (folder / "data" / name / f"{i}.txt").write_text(f"Ein Satz über {name} {i}\n" * 4)


def _make_csv(name: str, pack: Callable[[bytes], bytes], encoding: str = "utf-8") -> Any:
    def make(folder: Path) -> None:
        text = make_frame().to_csv(index=False).replace("ant", "çà")
        (folder / name).write_bytes(pack(text.encode(encoding)))

    return make


def _pack_zip(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.csv", content)
    return file.getvalue()


def _pack_zst(content: bytes) -> bytes:
    compressed: bytes = pa.compress(content, "zstd", asbytes=True)
    return compressed


def _make_json(name: str, *, lines: bool) -> Any:
    return lambda folder: make_frame().to_json(folder / name, orient="records", lines=lines)


def _make_settings(folder: Path) -> None:
    (folder / "uqled.toml").write_text('label = "kind"\nseed = 3\n[find]\nmodel = "forest"\n')


def _read_settings(scene: Scene) -> None:
    options = {name: {"label": "label", "seed": "seed", "model": "model"} for name in ("find", "a")}
    is_trusted = scene.rng.random() < 0.5
    read_settings(scene.input / "uqled.toml", options, is_trusted=is_trusted)


def _read_sheet(scene: Scene) -> None:
    """Its sheet, by its name or because there is no other."""
    sheet = scene.rng.choice((None, None, "data"))
    check_dataset(load(scene.input / "data.xlsx", cache=False, sheet=sheet))


def _target(name: str, make: Callable[[Path], Any], place: str, cases: int = 60) -> Target:
    def read(scene: Scene) -> None:
        check_dataset(load(scene.input / place, cache=False))

    return Target(name, make, damage_files, read, cases=cases)


TABLE_TARGETS = [
    _target("json", _make_json("data.json", lines=False), "data.json", 100),
    _target("json-lines", _make_json("data.jsonl", lines=True), "data.jsonl", 80),
    Target(
        "xlsx", lambda f: write_spreadsheet(f / "data.xlsx"), damage_files, _read_sheet, (), 100
    ),
    _target("arrow", lambda f: _write_arrow(f / "data.arrow"), "data.arrow", 100),
    _target("arrow-lz4", lambda f: _write_arrow(f / "data.arrow", compression="lz4"), "data.arrow"),
    _target("arrow-stream", lambda f: _write_arrow(f / "d.ipc", is_stream=True), "d.ipc"),
    _target("saved-dataset", _make_saved_dataset, "", 80),
    _target("text-folder", _make_text_folder, "data"),
    _target("csv-bz2", _make_csv("data.csv.bz2", bz2.compress), "data.csv.bz2"),
    _target("csv-xz", _make_csv("data.csv.xz", lzma.compress), "data.csv.xz"),
    _target("csv-zst", _make_csv("data.csv.zst", _pack_zst), "data.csv.zst"),
    _target("csv-zip", _make_csv("data.zip", _pack_zip), "data.zip"),
    _target("csv-utf16", _make_csv("data.csv", bytes, "utf-16"), "data.csv"),
    _target("csv-latin", _make_csv("data.csv", bytes, "latin-1"), "data.csv"),
    Target("settings", _make_settings, damage_files, _read_settings, cases=100),
]
