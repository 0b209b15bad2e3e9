"""A folder, or a zip, with one folder of text files per class."""

from __future__ import annotations

from uqled.data.classes import encode_column
from uqled.data.raw_dataset import RawDataset, make_ids, make_object_array
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.data.readers.class_folders import (
    choose_class_tree,
    note_empty_folders,
    note_tree_split,
)
from uqled.data.tables.text_dialect import decode_text

_ENDINGS = (".txt", ".text", ".md")


def _matches(source: Source) -> bool:
    if not source.is_tree:
        return False
    files = [file for file in source.tree.files if "/" in file]
    return bool(files) and all(file.lower().endswith(_ENDINGS) for file in files)


def _read(source: Source, request: ReadRequest) -> RawDataset:
    tree, prefix = choose_class_tree(source.tree, request.split)
    files = [file for file in tree.files if "/" in file]
    texts = [decode_text(tree.read_bytes(file)) for file in files]
    labels = encode_column([file.split("/")[0] for file in files])
    ids = make_ids(prefix + file for file in files)
    used_folders = {file.split("/")[0] for file in files}
    notes = (
        *note_tree_split(source.tree, prefix, request.split),
        *note_empty_folders([n for n in tree.top_folders if n not in used_folders], "texts"),
    )
    return RawDataset("texts", make_object_array(texts), labels, ids, notes=notes)


READER = Reader("a folder with one folder of texts per class", _matches, _read, has_splits=True)
