"""Spreadsheets of strangers: a few cells that claim more than memory holds are refused."""

from __future__ import annotations

import zipfile

import pytest

from fuzzing.targets.tables import WORKBOOK, write_spreadsheet
from uqled.data import load
from uqled.data.readers.excel import make_column_names
from uqled.errors import FileError, LimitError
from uqled.limits import override_limits

pytest.importorskip("python_calamine")
LIMIT = 2**24
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
ODS = "application/vnd.oasis.opendocument.spreadsheet"


def write_parts(path, parts):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def write_sheet(path, rows, **parts):
    sheet = f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'
    return write_parts(path, WORKBOOK | {"xl/worksheets/sheet1.xml": sheet} | parts)


def refuse(path, match="memory_bytes", error=LimitError):
    with override_limits(memory_bytes=LIMIT), pytest.raises(error, match=match):
        load(path)


def test_two_cells_far_apart_do_not_end_the_process(tmp_path):
    """The parser allocates what lies between them at once, and half a terabyte ends the process."""
    for last in ("XFD1048576", "xfd1048576"):
        rows = f'<row r="1"><c r="A1"><v>1</v></c></row><row><c r="{last}"><v>1</v></c></row>'
        refuse(write_sheet(tmp_path / "t.xlsx", rows))
    rows = '<row r="1"><c r="A1"><v>1</v></c></row><row r="99999999"><c><v>1</v></c></row>'
    refuse(write_sheet(tmp_path / "t.xlsx", rows))
    rows = '<row r="1"><c r="A99999999999"><v>1</v></c></row>'
    refuse(write_sheet(tmp_path / "t.xlsx", rows), "a cell is called", FileError)


@pytest.mark.parametrize("has_decoy", [False, True])
def test_a_long_text_that_many_cells_share_is_counted_in_each(tmp_path, has_decoy):
    rows = "".join(
        f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c><c r="B{i}"><v>{i % 2}</v></c></row>'
        for i in range(1, 101)
    )
    relations = WORKBOOK["xl/_rels/workbook.xml.rels"].replace(
        "</Rel",
        f'<Relationship Id="r2" Type="{OFFICE}/sharedStrings" Target="sharedStrings.xml"/></Rel',
    )
    parts = {"xl/_rels/workbook.xml.rels": relations}
    if has_decoy:
        parts["xl/aaa.xml"] = f'<sst xmlns="{MAIN}"><si><t>short</t></si></sst>'
    parts["xl/sharedStrings.xml"] = f'<sst xmlns="{MAIN}"><si><t>{"x y " * 2**16}</t></si></sst>'
    path = write_sheet(tmp_path / "t.xlsx", rows, **parts)
    assert path.stat().st_size < LIMIT // 100
    refuse(path)


def write_ods(path, rows):
    words = "urn:oasis:names:tc:opendocument:xmlns"
    content = (
        f'<office:document-content xmlns:office="{words}:office:1.0" '
        f'xmlns:table="{words}:table:1.0" xmlns:text="{words}:text:1.0"><office:body>'
        f'<office:spreadsheet><table:table table:name="data">{rows}</table:table>'
        "</office:spreadsheet></office:body></office:document-content>"
    )
    manifest = (
        '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    )
    parts = {"mimetype": ODS, "META-INF/manifest.xml": manifest, "content.xml": content}
    return write_parts(path, parts)


def cell(text, more=""):
    return (
        f'<table:table-cell office:value-type="string" {more}><text:p>{text}</text:p>'
        "</table:table-cell>"
    )


def test_cells_that_come_again_and_again_are_counted_each(tmp_path):
    path = tmp_path / "t.ods"
    header = f"<table:table-row>{cell('text')}{cell('label')}</table:table-row>"
    wide = cell("x", 'table:number-columns-repeated="16000"')
    tall = 'table:number-rows-repeated="1000000"'
    refuse(write_ods(path, f"{header}<table:table-row {tall}>{wide}</table:table-row>"))
    long = cell("x y " * 2**16)
    refuse(
        write_ods(
            path,
            f'{header}<table:table-row table:number-rows-repeated="100">{long}</table:table-row>',
        )
    )
    rows = "".join(
        f"<table:table-row>{cell(f'film {i} was good')}{cell('ab'[i % 2])}"
        '<table:table-cell table:number-columns-repeated="16000"/></table:table-row>'
        for i in range(20)
    )
    filler = f'<table:table-row {tall}><table:table-cell table:number-columns-repeated="16000"/>'
    write_ods(path, f"{header}{rows}{filler}</table:table-row>")  # as programs write them
    with override_limits(memory_bytes=LIMIT):
        assert len(load(path)) == 20


def test_a_part_that_is_no_xml_is_refused(tmp_path):
    rows = '<row r="1"><c r="A1"><v>1</v></c>'
    refuse(write_sheet(tmp_path / "t.xlsx", rows), "is not a spreadsheet", FileError)
    sheet = "x<worksheet><sheetData></sheetData></worksheet>"
    refuse(
        write_sheet(tmp_path / "t.xlsx", "", **{"xl/a.png": sheet}), "is not a spread", FileError
    )
    declaration = '<!DOCTYPE x [<!ENTITY a "b">]><sst><si><t>&a;</t></si></sst>'
    path = write_sheet(tmp_path / "t.xlsx", "", **{"xl/sharedStrings.xml": declaration})
    refuse(path, "declares a document type", FileError)


@pytest.mark.parametrize("ending", ["xlsx", "xls", "xlsb"])
def test_a_binary_spreadsheet_is_refused_whatever_its_ending(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(4_000))
    refuse(path, "binary spreadsheets are not supported", FileError)
    path = write_sheet(tmp_path / f"u.{ending}", "", **{"xl/workbook.bin": "x"})
    refuse(path, "binary spreadsheets are not supported", FileError)


def test_a_sound_spreadsheet_is_read(tmp_path):
    write_spreadsheet(tmp_path / "t.xlsx")
    with override_limits(memory_bytes=LIMIT):
        assert len(load(tmp_path / "t.xlsx")) == 30


def test_columns_of_one_name_are_told_apart_at_once():
    """One by one, each compared with all before, would take days."""
    names = make_column_names(["x"] * 16_384)
    assert names[:3] == ["x", "x.1", "x.2"]
    assert len(set(names)) == 16_384
    assert make_column_names(["x.1", "x", "x", "x"]) == ["x.1", "x", "x.2", "x.3"]
