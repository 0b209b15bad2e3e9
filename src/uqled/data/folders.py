"""Image trees: a folder per class, and Tiny-ImageNet."""

from __future__ import annotations

from pathlib import PurePosixPath

import numpy as np

from uqled.data.classes import encode_labels
from uqled.data.file_tree import FileTree
from uqled.data.image_cache import EncodedImages
from uqled.data.images import ENDINGS
from uqled.data.raw_dataset import (
    SPLITS,
    RawDataset,
    choose_split,
    make_ids,
    make_object_array,
    quoted,
    refuse_split,
)
from uqled.errors import FileError

_SHOWN = 5  # names in a message


def class_folders(tree: FileTree, split: str | None) -> RawDataset:
    """A folder per class, its images anywhere below it; perhaps one such tree per split."""
    splits = [name for name in tree.top_folders if name.lower() in SPLITS]
    if splits and len(splits) == len(tree.top_folders) and any("/" in f for f in tree.folders):
        chosen = choose_split(split, splits, tree.place)
        return _labelled(tree.subtree(chosen), prefix=f"{chosen}/")
    refuse_split(split, tree.place)
    return _labelled(tree)


def is_tiny_imagenet(tree: FileTree) -> bool:
    return tree.has("wnids.txt") and "train" in tree.top_folders


def tiny_imagenet(tree: FileTree, split: str | None) -> RawDataset:
    """`train/<wnid>/images`, or `val/images` with `val/val_annotations.txt`."""
    chosen = choose_split(split, ["train", "val"], tree.place)
    wnids = tree.subtree("train").top_folders
    if chosen == "val" and tree.has("val/val_annotations.txt"):
        rows = [line.split("\t") for line in tree.read_lines("val/val_annotations.txt")]
        given = {f"val/images/{row[0]}": row[1] for row in rows if len(row) > 1}
        files = [file for file in given if tree.has(file)]
        labels = [given[file] for file in files]
    else:
        files = [f for f in tree.files if f.startswith(f"{chosen}/") and _is_image(f)]
        labels = [file.split("/")[1] for file in files]
    if not files:
        raise FileError(quoted(tree.place), f"has no images in {chosen}", "Unpack it again")
    return RawDataset(
        "images",
        EncodedImages(tree.read_image, make_object_array(files)),
        encode_labels(labels, values=wnids, names=_words(tree, wnids)),
        make_ids(files),
    )


def _labelled(tree: FileTree, prefix: str = "") -> RawDataset:
    images = [file for file in tree.files if _is_image(file)]
    loose = [file for file in images if "/" not in file]
    if not images:
        endings = sorted({PurePosixPath(file).suffix for file in tree.files} - {""})
        raise FileError(
            quoted(tree.place),
            f"has no images (it holds {len(tree.files)} files"
            f"{f' that end in {_first(endings)}' if endings else ''})",
            f"Name a folder with one folder of images per class ({', '.join(ENDINGS)})",
        )
    if loose:
        raise FileError(
            quoted(tree.place),
            f"has {len(loose)} images without a label, outside of any class's folder "
            f"({_first(loose)})",
            "Move each into the folder of its class, or name a table of paths and labels",
        )
    classes = tree.top_folders
    used = {file.split("/")[0] for file in images}
    if empty := [name for name in classes if name not in used]:
        raise FileError(
            quoted(tree.place),
            f"has {len(empty)} class folders without images ({_first(empty)})",
            "Remove the folder, or put the images of that class there",
        )
    return RawDataset(
        "images",
        EncodedImages(tree.read_image, make_object_array(images)),
        encode_labels([file.split("/")[0] for file in images], names=classes),
        make_ids(prefix + file for file in images),
    )


def _is_image(file: str) -> bool:
    return file[file.rfind(".") :].lower() in ENDINGS


def _words(tree: FileTree, wnids: list[str]) -> list[str]:
    """The first word for each synset; with its number where two have the same."""
    rows = (
        [line.split("\t", 1) for line in tree.read_lines("words.txt")]
        if tree.has("words.txt")
        else []
    )
    words = {row[0]: row[1].split(",")[0].strip() for row in rows if len(row) == 2}
    names = [words.get(wnid, wnid) for wnid in wnids]
    unique, counts = np.unique(names, return_counts=True)
    twice = set(unique[counts > 1].tolist())
    return [f"{n} ({w})" if n in twice else n for n, w in zip(names, wnids, strict=True)]


def _first(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
