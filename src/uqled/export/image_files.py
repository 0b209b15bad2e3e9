"""The image file of every sample that stays, copied or linked below a folder."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.images import IMAGE_ENDINGS
from uqled.errors import FileError, InputError
from uqled.export.export_format import ExportFormat, ExportPlan, WriteOptions
from uqled.export.record import number_labels, read_record_rows
from uqled.export.source_samples import SourceSamples
from uqled.storage.reading import name_file

FILE_LIST = "files.csv"


@dataclass(frozen=True, order=True)
class ImageFile:
    """Where a sample's image was written: a row of `files.csv`."""

    index: int
    id: str
    file: str
    label: str


class ImageFolderFormat(ExportFormat):
    """A folder of images whose `files.csv` names the sample and the label of each."""

    needs = "images"
    options = frozenset({"unreviewed", "link"})

    def read_class_numbers(self, out: Path, note: Mapping[str, Any]) -> NDArray[np.int32]:
        rows = read_record_rows(out / FILE_LIST, [field.name for field in fields(ImageFile)])
        rows.sort(key=lambda row: int(row["index"]))
        return number_labels((row["label"] for row in rows), note, out)


def write_images(
    plan: ExportPlan,
    folder: Path,
    options: WriteOptions,
    choose_name: Callable[[SourceSamples, int, str], str],
) -> None:
    """Write the image of every sample that stays; `choose_name` says where, by index and ending."""
    with (folder / FILE_LIST).open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(ImageFile))
        writer.writerows(map(astuple, _write_each(plan, folder, options, choose_name)))


def _write_each(
    plan: ExportPlan,
    folder: Path,
    options: WriteOptions,
    choose_name: Callable[[SourceSamples, int, str], str],
) -> Iterator[ImageFile]:
    samples, corrected = plan.samples, plan.corrected
    assert samples is not None
    values = corrected.labels.values
    with options.progress.stage("writing images", len(corrected.rows)) as advance:
        for index in corrected.rows.tolist():
            if options.link:
                original = _find_original(samples, index)
                ending = original.suffix.lower()
                target = choose_name(samples, index, ending if ending in IMAGE_ENDINGS else "")
            else:
                data, ending = samples.read_image(index)
                target = choose_name(samples, index, ending)
            path = folder / target
            if ".." in path.parts or folder not in path.parents:
                raise FileError(name_file(target), "leads out of the target", "Rename the class")
            path.parent.mkdir(exist_ok=True)
            if options.link:
                path.symlink_to(original.resolve())
            else:
                path.write_bytes(data)
            yield ImageFile(index, samples.ids[index], target, str(values[corrected.codes[index]]))
            advance(1)


def _find_original(samples: SourceSamples, index: int) -> Path:
    original = samples.find_file(index)
    if original is None or not original.is_file():
        raise InputError(
            "link",
            f"needs files, but {samples.ids[index]!r} is not a file in {samples.source['place']!r}",
            "Leave --link out: images are then copied",
        )
    return original
