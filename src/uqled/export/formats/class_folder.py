"""`folder`: one folder of images per class, with the bytes that the source has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from uqled.export.export_format import ExportPlan, WriteOptions
from uqled.export.file_names import name_class_folders, pick_free_name, sanitize_file_name
from uqled.export.image_files import ImageFolderFormat, write_images
from uqled.export.source_samples import SourceSamples


class ClassFolderFormat(ImageFolderFormat):
    name = "folder"

    def write(self, plan: ExportPlan, target: Path, options: WriteOptions) -> dict[str, Any]:
        labels, codes = plan.corrected.labels, plan.corrected.codes
        # The class as the source spells it if that is a text, otherwise its displayed name.
        is_text = labels.values.dtype.kind in "UTO"
        folders = name_class_folders(labels.values.tolist() if is_text else labels.names)
        used_names: dict[str, set[str]] = {}

        def choose_name(samples: SourceSamples, index: int, ending: str) -> str:
            folder = folders[codes[index]]
            name = sanitize_file_name(samples.get_file_name(index) or f"{index:08d}{ending}")
            return f"{folder}/{pick_free_name(name, used_names.setdefault(folder, set()))}"

        write_images(plan, target, options, choose_name)
        return {}
