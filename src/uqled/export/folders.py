"""Cleaned folders of images: one folder per class, or FiftyOne's layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from uqled.data.images import ENDINGS
from uqled.detect.result import LabelErrors
from uqled.errors import FileError, InputError
from uqled.export.cleaning import Cleaning
from uqled.export.names import class_folders, free_name, safe_file_name
from uqled.export.record import FileRow, write_files
from uqled.export.samples import Samples
from uqled.progress import Progress
from uqled.storage.atomic import write_json


def write_class_folders(
    folder: Path, done: Cleaning, samples: Samples, *, link: bool, progress: Progress
) -> None:
    """Write `CLASS/FILE` for every sample that stays, with the bytes that its file has.

    `link` makes symbolic links to the files instead.
    """
    names = _folder_names(done)
    taken: dict[str, set[str]] = {}

    def place(index: int, ending: str) -> str:
        below = names[done.codes[index]]
        name = safe_file_name(samples.name(index) or f"{index:08d}{ending}")
        return f"{below}/{free_name(name, taken.setdefault(below, set()))}"

    write_files(folder / "files.csv", _written(folder, done, samples, place, link, progress))


def write_fiftyone(
    folder: Path,
    done: Cleaning,
    samples: Samples,
    errors: LabelErrors,
    decided: set[int],
    *,
    link: bool,
    progress: Progress,
) -> None:
    """Write `data/` and `labels.json` as FiftyOneImageClassificationDataset has them.

    Files are named by the sample's index: FiftyOne takes files that differ in their ending only
    for one. A label's attributes say how mistaken the given label seems, and if it was decided.
    """

    def place(index: int, ending: str) -> str:
        return f"data/{index:08d}{ending}"

    write_files(folder / "files.csv", _written(folder, done, samples, place, link, progress))
    names = done.labels.names
    labels = {
        f"{index:08d}": {
            "label": int(done.codes[index]),
            "attributes": {
                "mistakenness": 1.0 - float(errors.scores[index]),
                "is_label_issue": bool(errors.mask[index]) and index not in decided,
                "is_decided": index in decided,
                "given_label": names[done.labels.codes[index]],
                "suggested_label": names[errors.best[index]],
                "sample": samples.ids[index],
            },
        }
        for index in done.rows.tolist()
    }
    write_json(folder / "labels.json", {"classes": list(names), "labels": labels})


def _folder_names(done: Cleaning) -> list[str]:
    """The class as the source writes it where that is a text, else the name that is shown."""
    values = done.labels.values
    return class_folders(values.tolist() if values.dtype.kind in "UTO" else done.labels.names)


def _written(
    folder: Path,
    done: Cleaning,
    samples: Samples,
    place: Callable[[int, str], str],
    link: bool,
    progress: Progress,
) -> Iterator[FileRow]:
    """Write the file of every sample that stays; `place` says where, given index and ending."""
    values = done.labels.values
    with progress.stage("writing images", len(done.rows)) as advance:
        for index in done.rows.tolist():
            if link:
                original = _linked(samples, index)
                ending = original.suffix.lower()
                target = place(index, ending if ending in ENDINGS else "")
            else:
                data, ending = samples.image(index)
                target = place(index, ending)
            path = folder / target
            if ".." in path.parts or folder not in path.parents:
                raise FileError(f"file {target!r}", "leads out of the target", "Rename the class")
            path.parent.mkdir(exist_ok=True)
            if link:
                path.symlink_to(original.resolve())
            else:
                path.write_bytes(data)
            yield FileRow(index, samples.ids[index], target, str(values[done.codes[index]]))
            advance(1)


def _linked(samples: Samples, index: int) -> Path:
    original = samples.file(index)
    if original is None or not original.is_file():
        raise InputError(
            "link",
            f"needs files, and {samples.ids[index]!r} is none in {samples.source['place']!r}",
            "Leave --link out: images are then copied",
        )
    return original
