"""Tiny-ImageNet, as a folder or a zip."""

from __future__ import annotations

import numpy as np

from uqled.data.classes import encode_column
from uqled.data.file_tree import FileTree
from uqled.data.image_cache import EncodedImages
from uqled.data.images import is_image_name
from uqled.data.raw_dataset import (
    RawDataset,
    choose_split,
    make_ids,
    make_object_array,
    name_source,
)
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.errors import FileError


def _find_tree(source: Source) -> FileTree:
    tree = source.tree
    is_wrapped = tree.top_folders == ["tiny-imagenet-200"] and not tree.top_files
    return tree.subtree("tiny-imagenet-200") if is_wrapped else tree


def _matches(source: Source) -> bool:
    if not source.is_tree:
        return False
    tree = _find_tree(source)
    return tree.has("wnids.txt") and "train" in tree.top_folders


def _read(source: Source, request: ReadRequest) -> RawDataset:
    """`train/<wnid>/images`, or `val/images` with `val/val_annotations.txt`."""
    tree = _find_tree(source)
    split = choose_split(request.split, ["train", "val"], tree.place)
    wnids = tree.subtree("train").top_folders
    if split == "val" and tree.has("val/val_annotations.txt"):
        rows = [line.split("\t") for line in tree.read_lines("val/val_annotations.txt")]
        class_of_file = {f"val/images/{row[0]}": row[1] for row in rows if len(row) > 1}
        files = [file for file in class_of_file if tree.has(file)]
        labels = [class_of_file[file] for file in files]
    else:
        files = [f for f in tree.files if f.startswith(f"{split}/") and is_image_name(f)]
        labels = [file.split("/")[1] for file in files]
    if not files:
        raise FileError(name_source(tree.place), f"has no images in {split}", "Unpack it again")
    return RawDataset(
        "images",
        EncodedImages(tree.read_image, make_object_array(files), tree.find_file),
        encode_column(labels, values=wnids, names=_name_synsets(tree, wnids)),
        make_ids(files),
    )


def _name_synsets(tree: FileTree, wnids: list[str]) -> list[str]:
    """The first word for each synset; with its number where two have the same."""
    rows = (
        [line.split("\t", 1) for line in tree.read_lines("words.txt")]
        if tree.has("words.txt")
        else []
    )
    words = {row[0]: row[1].split(",")[0].strip() for row in rows if len(row) == 2}
    names = [words.get(wnid, wnid) for wnid in wnids]
    unique, counts = np.unique(names, return_counts=True)
    duplicates = set(unique[counts > 1].tolist())
    return [f"{n} ({w})" if n in duplicates else n for n, w in zip(names, wnids, strict=True)]


READER = Reader("Tiny-ImageNet", _matches, _read, has_splits=True)
