"""What an export format is: what it reads, which options it takes, and how it writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.detect.result import LabelErrors
from uqled.errors import FileError, InputError
from uqled.export.corrections import CorrectedLabels, describe_corrections
from uqled.export.formats import EXPORT_FORMATS
from uqled.export.source_samples import SourceSamples
from uqled.progress import Progress
from uqled.review.decisions import Decision
from uqled.storage.run import Predictions


@dataclass(frozen=True, eq=False)
class ExportPlan:
    """What an export will write."""

    format: ExportFormat
    predictions: Predictions
    errors: LabelErrors
    decisions: Mapping[int, Decision]
    corrected: CorrectedLabels
    samples: SourceSamples | None
    """The samples as their source holds them, for a format that needs them."""


@dataclass(frozen=True)
class WriteOptions:
    """The options of a format's `write`; a format uses those in its `options`."""

    out: Path
    """Where the export will lie when it is finished."""
    progress: Progress
    link: bool = False
    """Link images instead of copying them."""
    url: str | None = None
    """The address before the names of images in Label Studio."""


class ExportFormat(ABC):
    """One format that `uqled export --to NAME` writes."""

    name: ClassVar[str]
    file_endings: ClassVar[tuple[str, ...]] = ()
    """The file endings of a format that is one file; empty for a format that is a folder."""
    needs: ClassVar[Literal["labels", "table", "samples", "images"]] = "samples"
    """What it reads again from the source: `labels` nothing, `table` the other columns if the
    source is a table, `samples` samples of any kind, `images` samples that must be images."""
    options: ClassVar[frozenset[str]] = frozenset({"unreviewed"})
    """The options it supports, of `unreviewed`, `link` and `url`."""

    @abstractmethod
    def write(self, plan: ExportPlan, target: Path, options: WriteOptions) -> dict[str, Any]:
        """Write to `target`, an empty folder or a new file; returns what the record says of it."""

    def read_class_numbers(self, out: Path, note: Mapping[str, Any]) -> NDArray[np.int32]:
        """The class numbers of an export, in order; `note` is its record."""
        raise FileError(
            f"export {str(out)!r}",
            f"is of the kind {note['to']!r}, which keeps the given labels",
            "Read them from the export",
        )

    def describe(self, plan: ExportPlan) -> str:
        """What the export will do, in a few lines."""
        return describe_corrections(plan.corrected)


def check_options(form: ExportFormat, **options: Any) -> None:
    """Refuse an option that the format does not support."""
    for name, value in options.items():
        if value not in (None, False) and name not in form.options:
            formats = {one: EXPORT_FORMATS.load(one) for one in EXPORT_FORMATS.names()}
            takers = [one for one, kind in formats.items() if name in kind.options]
            raise InputError(
                name, f"is not an option for {form.name}", f"It is for {', '.join(takers)}"
            )
