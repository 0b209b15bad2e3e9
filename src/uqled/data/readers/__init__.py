"""Readers, one file each: a source is read by the first that recognises it."""

from __future__ import annotations

from uqled.data.raw_dataset import RawDataset, name_source, refuse_split
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.spellings import merge_spellings
from uqled.errors import FileError, InputError
from uqled.registry import Registry
from uqled.storage.reading import explain_file_problems

#: In the order in which they are asked; those of other packages are asked before ours.
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


def read_source(source: Source, request: ReadRequest) -> RawDataset:
    """Recognise the format of a source, and read it."""
    kind, place = request.kind, source.place
    if kind is not None and kind not in _KINDS:
        raise InputError("kind", f"is {kind!r}", f"Choose one of {', '.join(_KINDS)}")
    with explain_file_problems(place, "Check it, or get it again"):
        if not source.is_named and not source.path.exists():
            raise FileError(
                f"file or folder {str(place)!r}", "does not exist", f"Name {list_formats()}"
            )
        reader = find_reader(source)
        if not reader.has_columns:
            _refuse_columns(source, request)
        if not reader.has_splits:
            refuse_split(request.split, place)
        if request.sheet is not None and not reader.has_sheets:
            raise InputError(
                "sheet",
                f"is {request.sheet!r}, but {name_source(place)} is no spreadsheet",
                "Leave it out",
            )
        raw = reader.read(source, request)
    if kind is not None and raw.kind != kind:
        raise InputError(
            "kind", f"is {kind!r}, and {name_source(place)} holds {raw.kind}", "Leave it out"
        )
    return merge_spellings(raw) if request.spellings == "merge" else raw


def find_reader(source: Source) -> Reader:
    """The first reader that recognises the source."""
    names = sorted(READERS.names(), key=lambda name: name in READERS.own)
    for reader in map(READERS.load, names):
        if reader.matches(source):
            return reader
    raise FileError(
        name_source(source.place),
        f"has the ending {source.path.suffix!r}",
        f"Name {list_formats()}",
    )


def list_formats() -> str:
    """What can be named, for errors."""
    return ", ".join(READERS.load(name).summary for name in READERS.names())


def _refuse_columns(source: Source, request: ReadRequest) -> None:
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
                f"is {value!r}, but {name_source(source.place)} has no columns",
                "Leave it out",
            )
