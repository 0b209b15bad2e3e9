"""Reads files of `torch.save` as numbers and nothing else, within limits."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

from uqled.errors import FileError
from uqled.limits import check_limit
from uqled.storage.reading import explain_file_problems, name_file, open_regular
from uqled.storage.zip_files import open_zip

_FIX = "Save it again"


def read_tensors(path: Path | str, device: Any = "cpu") -> Any:
    """Tensors, numbers, texts, lists and dictionaries: `weights_only` builds nothing else."""
    import torch

    with explain_file_problems(path, _FIX), open_regular(path) as file:
        check_limit("memory_bytes", os.fstat(file.fileno()).st_size, name_file(path))
        if zipfile.is_zipfile(file):  # older files are one pickle, as long as what it holds
            _refuse_packed(path, file)
        file.seek(0)
        return torch.load(file, map_location=device, weights_only=True)


def _refuse_packed(path: Path | str, file: BinaryIO) -> None:
    """Refuse a file that unpacks to more than its own size: torch does not compress."""
    file.seek(0)
    size = os.fstat(file.fileno()).st_size
    with open_zip(path, file) as archive:
        members = archive.filelist
        is_packed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
        if is_packed or sum(member.file_size for member in members) > size:
            raise FileError(name_file(path), "is not packed the way torch packs it", _FIX)
