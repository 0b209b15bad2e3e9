"""A folder, or a zip, with one folder of images per class."""

from __future__ import annotations

from pathlib import PurePosixPath

from uqled.data.classes import encode_labels
from uqled.data.file_tree import FileTree
from uqled.data.image_cache import EncodedImages
from uqled.data.images import ENDINGS, is_image_name
from uqled.data.raw_dataset import (
    SPLITS,
    RawDataset,
    choose_split,
    make_ids,
    make_object_array,
    name_source,
    refuse_split,
)
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.errors import FileError

_SHOWN = 5  # names in a message


def choose_class_tree(tree: FileTree, split: str | None) -> tuple[FileTree, str]:
    """The tree whose folders are the classes, and its path: perhaps that of one split."""
    splits = [name for name in tree.top_folders if name.lower() in SPLITS]
    if splits and len(splits) == len(tree.top_folders) and any("/" in f for f in tree.folders):
        chosen = choose_split(split, splits, tree.place)
        return tree.subtree(chosen), f"{chosen}/"
    refuse_split(split, tree.place)
    return tree, ""


def _read(source: Source, request: ReadRequest) -> RawDataset:
    """The images of a class lie anywhere below its folder."""
    tree, prefix = choose_class_tree(source.tree, request.split)
    images = [file for file in tree.files if is_image_name(file)]
    loose = [file for file in images if "/" not in file]
    if not images:
        endings = sorted({PurePosixPath(file).suffix for file in tree.files} - {""})
        raise FileError(
            name_source(tree.place),
            f"has no images (it holds {len(tree.files)} files"
            f"{f' that end in {_list_first(endings)}' if endings else ''})",
            f"Name a folder with one folder of images per class ({', '.join(ENDINGS)})",
        )
    if loose:
        raise FileError(
            name_source(tree.place),
            f"has {len(loose)} images without a label, outside of any class's folder "
            f"({_list_first(loose)})",
            "Move each into the folder of its class, or name a table of paths and labels",
        )
    classes = tree.top_folders
    used = {file.split("/")[0] for file in images}
    if empty := [name for name in classes if name not in used]:
        raise FileError(
            name_source(tree.place),
            f"has {len(empty)} class folders without images ({_list_first(empty)})",
            "Remove the folder, or put the images of that class there",
        )
    return RawDataset(
        "images",
        EncodedImages(tree.read_image, make_object_array(images), tree.find_file),
        encode_labels([file.split("/")[0] for file in images], names=classes),
        make_ids(prefix + file for file in images),
    )


def _list_first(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


READER = Reader(
    "a folder with one folder of images per class, or a .zip of it",
    lambda source: source.is_tree,
    _read,
    has_splits=True,
)
