"""Checks of images: of a single colour, tiny, unreadable, with the ending of another format."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import numpy as np

from uqled.data.dataset import Dataset
from uqled.data.images import IMAGE_ENDINGS, identify_image
from uqled.data.inspection.findings import Finding, format_count
from uqled.data.raw_dataset import is_split_name
from uqled.errors import UqledError
from uqled.storage.reading import open_regular

_FLAT = (
    4  # grey levels between darkest and brightest pixel, up to which an image counts as one colour
)
_MIN_SIDE = 8  # pixels
_HEADER_BYTES = 2**16  # enough to recognise the format of a file
_SAME_FORMAT = {
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif"), ("JPEG", "MPO")),
    **dict.fromkeys((".tif", ".tiff"), ("TIFF",)),
    **dict.fromkeys((".pbm", ".pgm", ".pnm", ".ppm"), ("PPM",)),
    ".jp2": ("JPEG2000",),
}


def check_images(data: Dataset) -> list[Finding]:
    if data.kind != "images":
        return []
    findings = []
    flat = [i for i, image in enumerate(data.inputs) if np.ptp(image) <= _FLAT]
    if flat:
        findings.append(
            Finding(
                "plain-images",
                "warning",
                f"{format_count(len(flat), 'image is', 'images are')} of one colour, such as black",
                "It shows nothing to label: remove it"
                if len(flat) == 1
                else "They show nothing to label: remove them",
                tuple(data.ids[flat].tolist()),
            )
        )
    if data.skipped:
        findings.append(
            Finding(
                "unreadable-images",
                "warning",
                f"{format_count(len(data.skipped), 'image', 'images')} cannot be read",
                "It is left out: repair or remove it"
                if len(data.skipped) == 1
                else "They are left out: repair or remove them",
                tuple(data.skipped),
            )
        )
    return [*findings, *_check_files(data), *_check_folder_names(data)]


def _check_files(data: Dataset) -> list[Finding]:
    """Check for images that are tiny, or whose format does not match their ending."""
    place = (data.source or {}).get("place")
    folder = Path(str(place))
    if place is None or not folder.is_dir():
        is_tiny = min(data.inputs.shape[1:3]) < _MIN_SIDE
        return [_describe_tiny(data, data.ids.tolist())] if is_tiny else []
    tiny_files, misnamed_files = [], []
    for name in data.ids.tolist():
        try:
            with open_regular(folder / name) as file:
                start = file.read(_HEADER_BYTES)
        except (UqledError, OSError):
            continue
        image_format, size = identify_image(start)
        if image_format is not None and min(size) < _MIN_SIDE:
            tiny_files.append(name)
        ending = PurePosixPath(name).suffix.lower()
        expected_formats = _SAME_FORMAT.get(ending, (ending[1:].upper(),))
        if ending in IMAGE_ENDINGS and image_format not in (None, *expected_formats):
            misnamed_files.append(name)
    findings = [_describe_tiny(data, tiny_files)] if tiny_files else []
    if misnamed_files:
        findings.append(
            Finding(
                "wrong-endings",
                "note",
                f"{format_count(len(misnamed_files), 'file has', 'files have')} the ending of "
                "another image format",
                "They are read anyway, but other programs may refuse them",
                tuple(misnamed_files),
            )
        )
    return findings


def _describe_tiny(data: Dataset, names: list[str]) -> Finding:
    subject = "all images are" if len(names) == len(data) else format_count(
        len(names), "image is", "images are"
    )  # fmt: skip
    return Finding(
        "tiny-images",
        "warning",
        f"{subject} smaller than {_MIN_SIDE} pixels",
        "Hardly anything can be recognised: use larger ones, or remove them",
        () if len(names) == len(data) else tuple(names),
    )


def _check_folder_names(data: Dataset) -> list[Finding]:
    """Check for splits, or nested folders, where a folder per class is expected."""
    splits = [name for name in data.labels.names if is_split_name(name)]
    if splits:
        return [
            Finding(
                "split-folders",
                "error",
                f"the class {splits[0]!r} is named like a split"
                if len(splits) == 1
                else f"the classes {', '.join(map(repr, splits))} are named like splits",
                "Name the folder of one split, or move other folders out of the way",
            )
        ]
    below = [name.split("/")[1:-1] for name in _remove_split(data.ids.tolist())]
    nested_folders = {parts[0] for parts in below if parts}
    if len(nested_folders) > 1 and sum(bool(parts) for parts in below) == len(below):
        return [
            Finding(
                "nested-folders",
                "note",
                f"every class has folders in it, such as {sorted(nested_folders)[0]!r}",
                "The outer folders are taken for the classes: name one of them if it is the "
                "inner ones",
            )
        ]
    return []


def _remove_split(names: list[str]) -> list[str]:
    """Strip the split's folder from file names if all files are in the same one."""
    first = {name.split("/")[0] for name in names}
    if len(first) == 1 and is_split_name(first.pop()):
        return [name.partition("/")[2] for name in names]
    return names
