"""`fiftyone`: `data/` and `labels.json` as FiftyOneImageClassificationDataset has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from uqled.export.export_format import ExportPlan, WriteOptions
from uqled.export.image_files import ImageFolderFormat, write_images
from uqled.export.source_samples import SourceSamples
from uqled.storage.atomic import write_json


class FiftyOneFormat(ImageFolderFormat):
    """Files are named by the sample's index, because FiftyOne treats files that differ only in
    their ending as one. A label's attributes say how mistaken the given label seems, and whether it
    was decided."""

    name = "fiftyone"

    def write(self, plan: ExportPlan, target: Path, options: WriteOptions) -> dict[str, Any]:
        write_images(plan, target, options, _choose_name)
        corrected, errors = plan.corrected, plan.errors
        names, classes = corrected.labels.names, corrected.class_numbers
        new_labels = np.searchsorted(classes, corrected.codes)
        labels = {
            f"{index:08d}": {
                "label": int(new_labels[index]),
                "attributes": {
                    "mistakenness": 1.0 - float(errors.scores[index]),
                    "is_label_issue": bool(errors.mask[index]) and index not in plan.decisions,
                    "is_decided": index in plan.decisions,
                    "given_label": names[corrected.labels.codes[index]],
                    "suggested_label": names[errors.suggested_codes[index]],
                    "sample": plan.predictions.ids[index],
                },
            }
            for index in corrected.rows.tolist()
        }
        content = {"classes": [names[k] for k in classes], "labels": labels}
        write_json(target / "labels.json", content)
        return {}


def _choose_name(_: SourceSamples, index: int, ending: str) -> str:
    return f"data/{index:08d}{ending}"
