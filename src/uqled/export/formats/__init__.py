"""One file per export format. Another package adds one with an entry point of `uqled.exports`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uqled.registry import Registry

if TYPE_CHECKING:
    from uqled.export.export_format import ExportFormat

_HERE = "uqled.export.formats"

EXPORT_FORMATS: Registry[type[ExportFormat]] = Registry(
    "uqled.exports",
    {
        "cleanlab": f"{_HERE}.cleanlab_table:CleanlabFormat",
        "csv": f"{_HERE}.csv_table:CsvFormat",
        "fiftyone": f"{_HERE}.fiftyone:FiftyOneFormat",
        "folder": f"{_HERE}.class_folder:ClassFolderFormat",
        "huggingface": f"{_HERE}.huggingface:HuggingFaceFormat",
        "label-studio": f"{_HERE}.label_studio:LabelStudioFormat",
        "parquet": f"{_HERE}.parquet_table:ParquetFormat",
    },
    argument="to",
)
