"""Readers, one file each: a source is read by the first that recognises it."""

from __future__ import annotations

from uqled.data.images import is_image_name
from uqled.data.raw_dataset import RawDataset, name_source, refuse_split
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.spellings import merge_spellings
from uqled.errors import FileError, InputError, list_first
from uqled.registry import Registry
from uqled.storage.reading import explain_file_problems

#: In the order in which they are tried; readers of other packages are tried before ours.
READERS: Registry[Reader] = Registry(
    "uqled.readers",
    {
        name: f"uqled.data.readers.{name}:READER"
        for name in (
            *("digits", "hub", "delimited", "parquet", "json_records", "excel", "arrow", "npz"),
            *("idx", "cifar", "saved_dataset", "tiny_imagenet", "text_folders", "class_folders"),
        )
    },
    "reader",
)
_KINDS = ("images", "texts", "table")
#: Files of a folder or zip that are tables; those in .txt may be anything.
_TABLES = (
    *(".csv", ".tsv", ".csv.gz", ".tsv.gz", ".json", ".jsonl", ".ndjson", ".xlsx", ".parquet"),
    *(".feather", ".arrow"),
)
_MAX_TABLES = 5  # of them in a message


def read_source(source: Source, request: ReadRequest) -> RawDataset:
    """Recognise the format of a source, and read it."""
    kind, place = request.kind, source.place
    if kind is not None and kind not in _KINDS:
        raise InputError("kind", f"is {kind!r}", f"Choose one of {', '.join(_KINDS)}")
    with explain_file_problems(place, "Check it, or download it again"):
        if not source.is_named and not source.path.exists():
            raise FileError(
                f"file or folder {str(place)!r}", "does not exist", f"Name {list_formats()}"
            )
        reader = find_reader(source)
        if source.is_tree and not reader.has_columns:
            _refuse_tables(source)
        if not reader.has_columns:
            _refuse_columns(source, request, reader)
        if not reader.has_splits:
            refuse_split(request.split, place)
        if request.sheet is not None and not reader.has_sheets:
            raise InputError(
                "sheet",
                f"is {request.sheet!r}, but {name_source(place)} is not a spreadsheet",
                "Leave it out",
            )
        raw = reader.read(source, request)
    if kind is not None and raw.kind != kind:
        raise InputError(
            "kind", f"is {kind!r}, but {name_source(place)} holds {raw.kind}", "Leave it out"
        )
    return merge_spellings(raw) if request.spellings == "merge" else raw


def find_reader(source: Source) -> Reader:
    """The first reader that recognises the source."""
    names = sorted(READERS.names(), key=lambda name: name in READERS.own_entries)
    for reader in map(READERS.load, names):
        if reader.matches(source):
            return reader
    ending = source.path.suffix
    raise FileError(
        name_source(source.place),
        f"has the ending {ending!r}" if ending else "has no ending that tells its format",
        f"Name {list_formats()}",
    )


def list_formats() -> str:
    """What can be named, for errors."""
    return ", ".join(READERS.load(name).summary for name in READERS.names())


def _refuse_tables(source: Source) -> None:
    """Refuse a folder, or a zip, of tables, of which one must be named."""
    files = source.tree.files
    tables = [file for file in files if file.lower().endswith(_TABLES)]
    if not tables or any(map(is_image_name, files)):
        return
    raise FileError(
        name_source(source.place),
        f"holds {'a table' if len(tables) == 1 else 'tables'} ({list_first(tables, _MAX_TABLES)})",
        f"Name {'it' if len(tables) == 1 else 'one of them'}"
        if source.is_folder
        else f"Unpack it, and name {'the table' if len(tables) == 1 else 'one of them'}",
    )


def _refuse_columns(source: Source, request: ReadRequest, reader: Reader) -> None:
    options = {
        "label": request.label,
        "inputs": request.inputs,
        "columns": request.columns or None,
        "group": request.group,
    }
    for argument, value in options.items():
        if value is not None:
            raise InputError(
                argument,
                f"is {value!r}, but {name_source(source.place)}, which is read as "
                f"{reader.summary}, has no columns",
                "Leave it out, or name a table",
            )
