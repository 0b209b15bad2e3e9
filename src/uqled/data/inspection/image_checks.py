"""Images that are plainly odd: of one colour, tiny, with the ending of another format."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import numpy as np

from uqled.data.dataset import Dataset
from uqled.data.images import ENDINGS, identify_format
from uqled.data.inspection.findings import Finding
from uqled.data.raw_dataset import SPLITS
from uqled.errors import UqledError
from uqled.storage.reading import open_regular

_FLAT = 4  # grey levels between the darkest and the brightest pixel of an image of one colour
_TINY = 8  # pixels
_HEADER_BYTES = 2**16  # that show what format a file has
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
                f"{len(flat):,} images are of one colour, such as all black",
                "They show nothing to label: remove them",
                tuple(data.ids[flat].tolist()),
            )
        )
    if min(data.inputs.shape[1:3]) < _TINY:
        height, width = data.inputs.shape[1:3]
        findings.append(
            Finding(
                "tiny-images",
                "warning",
                f"the images are {height} x {width} pixels",
                "Hardly anything can be recognised: use larger ones",
            )
        )
    if data.skipped:
        findings.append(
            Finding(
                "unreadable-images",
                "warning",
                f"{len(data.skipped):,} images cannot be read",
                "They are left out: repair or remove them",
                tuple(data.skipped),
            )
        )
    return [*findings, *_check_endings(data), *_check_classes(data)]


def _check_endings(data: Dataset) -> list[Finding]:
    """Files whose content is another format than their name says."""
    folder = Path(str((data.source or {}).get("place", "")))
    if not folder.is_dir():
        return []
    wrong = []
    for name in data.ids.tolist():
        ending = PurePosixPath(name).suffix.lower()
        if ending not in ENDINGS:
            continue
        try:
            with open_regular(folder / name) as file:
                start = file.read(_HEADER_BYTES)
        except (UqledError, OSError):
            continue
        own = identify_format(start)
        expected = _SAME_FORMAT.get(ending, (ending[1:].upper(),))
        if own is not None and own not in expected:
            wrong.append(name)
    if not wrong:
        return []
    return [
        Finding(
            "wrong-endings",
            "note",
            f"{len(wrong):,} files have the ending of another image format",
            "They are read all the same; other programs may refuse them",
            tuple(wrong),
        )
    ]


def _check_classes(data: Dataset) -> list[Finding]:
    """Folders of splits, or of folders, where folders of classes are expected."""
    splits = [name for name in data.labels.names if name.lower() in SPLITS]
    if splits:
        return [
            Finding(
                "split-folders",
                "error",
                f"the classes {', '.join(map(repr, splits))} are called like splits",
                "Name the folder of one split, or move other folders out of the way",
            )
        ]
    below = [name.split("/")[1:-1] for name in data.ids.tolist()]
    nested = {parts[0] for parts in below if parts}
    if len(nested) > 1 and sum(bool(parts) for parts in below) == len(below):
        return [
            Finding(
                "nested-folders",
                "note",
                f"every class has folders in it, such as {sorted(nested)[0]!r}",
                "The outer folders are taken for the classes: name one of them if it is the "
                "inner ones",
            )
        ]
    return []
