"""One file per export format. Another package adds one with an entry point of `uqled.exports`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uqled.registry import Registry

if TYPE_CHECKING:
    from uqled.export.export_format import ExportFormat

_ROOM = "uqled.export.formats"

EXPORT_FORMATS: Registry[type[ExportFormat]] = Registry(
    "uqled.exports",
    {
        "cleanlab": f"{_ROOM}.cleanlab_table:CleanlabFormat",
        "csv": f"{_ROOM}.csv_table:CsvFormat",
        "fiftyone": f"{_ROOM}.fiftyone:FiftyOneFormat",
        "folder": f"{_ROOM}.class_folder:ClassFolderFormat",
        "huggingface": f"{_ROOM}.huggingface:HuggingFaceFormat",
        "label-studio": f"{_ROOM}.label_studio:LabelStudioFormat",
        "parquet": f"{_ROOM}.parquet_table:ParquetFormat",
    },
    argument="to",
)
