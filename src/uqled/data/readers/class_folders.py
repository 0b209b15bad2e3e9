"""A folder, or a zip, with one folder of images per class."""

from __future__ import annotations

from pathlib import PurePosixPath

from uqled.data.classes import encode_column
from uqled.data.file_tree import FileTree
from uqled.data.image_cache import EncodedImages
from uqled.data.images import IMAGE_ENDINGS, is_image_name
from uqled.data.raw_dataset import (
    RawDataset,
    choose_split,
    is_split_name,
    make_ids,
    make_object_array,
    name_source,
    note_split,
    refuse_split,
)
from uqled.data.reader import Reader, ReadRequest, Source
from uqled.errors import FileError, list_first

_MAX_NAMES = 5  # names in a message


def choose_class_tree(tree: FileTree, split: str | None) -> tuple[FileTree, str]:
    """The tree whose folders are the classes, and its path: perhaps that of one split."""
    splits = [name for name in tree.top_folders if is_split_name(name)]
    if splits and len(splits) == len(tree.top_folders) and any("/" in f for f in tree.folders):
        chosen_split = choose_split(split, splits, tree.place)
        return tree.subtree(chosen_split), f"{chosen_split}/"
    refuse_split(split, tree.place)
    return tree, ""


def _read(source: Source, request: ReadRequest) -> RawDataset:
    """The images of a class lie anywhere below its folder."""
    tree, prefix = choose_class_tree(source.tree, request.split)
    _refuse_one_folder(tree)
    images = [file for file in tree.files if is_image_name(file)]
    loose_files = [file for file in images if "/" not in file]
    if not images:
        endings = sorted({PurePosixPath(file).suffix for file in tree.files} - {""})
        raise FileError(
            name_source(tree.place),
            f"has no images (it holds {len(tree.files)} files"
            f"{f' that end in {list_first(endings, _MAX_NAMES)}' if endings else ''})",
            f"Name a folder with one folder of images per class ({', '.join(IMAGE_ENDINGS)})",
        )
    if loose_files:
        raise FileError(
            name_source(tree.place),
            f"has {len(loose_files)} images without a label, outside any class folder "
            f"({list_first(loose_files, _MAX_NAMES)})",
            "Move each into the folder of its class, or name a table of paths and labels",
        )
    used_folders = {file.split("/")[0] for file in images}
    classes = [name for name in tree.top_folders if name in used_folders]
    empty = [name for name in tree.top_folders if name not in used_folders]
    return RawDataset(
        "images",
        EncodedImages(tree.read_image, make_object_array(images), tree.find_file),
        encode_column([file.split("/")[0] for file in images], names=classes),
        make_ids(prefix + file for file in images),
        notes=(
            *note_tree_split(source.tree, prefix, request.split),
            *note_empty_folders(empty, "images"),
        ),
    )


def note_empty_folders(names: list[str], kind: str) -> list[tuple[str, str]]:
    """Which folders hold nothing to read, if any do."""
    if not names:
        return []
    number = "1 folder" if len(names) == 1 else f"{len(names):,} folders"
    return [
        (
            f"{number} without {kind} left out: {list_first(names, _MAX_NAMES)}",
            f"If it is a class, put its {kind} there",
        )
    ]


def note_tree_split(tree: FileTree, prefix: str, split: str | None) -> tuple[tuple[str, str], ...]:
    """Which split of a folder is read, where the user did not say so."""
    return note_split(prefix.rstrip("/"), tree.top_folders, split) if prefix else ()


def _refuse_one_folder(tree: FileTree) -> None:
    """Refuse a folder around the classes, which would be the only class."""
    if len(tree.top_folders) != 1:
        return
    folder = tree.top_folders[0]
    inner = tree.subtree(folder).top_folders
    if len(inner) > 1:
        raise FileError(
            name_source(tree.place),
            f"has one folder, {folder!r}, with the folders {list_first(inner, _MAX_NAMES)} in it",
            f"Name the folder whose folders are the classes: {tree.place / tree.prefix / folder}",
        )


READER = Reader(
    "a folder with one folder of images per class, or a .zip of it",
    lambda source: source.is_tree,
    _read,
    has_splits=True,
)
