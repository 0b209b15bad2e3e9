"""What this machine's hardware can do, tested rather than looked up."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

from uqled.errors import InputError

_PROBE = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); (x @ x).sum()"
_PROBE_SECONDS = 60
# Parameters of mallopt from glibc's malloc.h, and their initial values.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_KEEP_ALL, _USUAL_MAPS, _USUAL_THRESHOLD = 2**31 - 1, 65_536, 32 << 20
_TENSOR_CORES = (7, 0)  # the first compute capability that has them


def check_device(device: str) -> None:
    """Refuse a device that PyTorch cannot use on this machine."""
    name, _, number = device.partition(":")
    if name == "cuda" and not torch.cuda.is_available():
        is_built = torch.version.cuda is not None or torch.version.hip is not None
        problem = "PyTorch finds no GPU" if is_built else "PyTorch is installed without CUDA"
    elif name == "cuda" and number.isdecimal() and int(number) >= torch.cuda.device_count():
        n = torch.cuda.device_count()
        problem = f"PyTorch finds {n} GPU{'' if n == 1 else 's'}, numbered from 0"
    elif name == "mps" and not torch.backends.mps.is_available():
        problem = "PyTorch cannot use it on this machine"
    else:
        return
    raise InputError("device", f"is {device!r}, and {problem}", "Use auto or cpu")


def has_bfloat16(device: str) -> bool:
    """Whether the hardware multiplies bfloat16 natively, and so faster than float32."""
    if _is_cuda(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)
    flags = _read_processor_flags()
    has_units = "avx512_bf16" in flags or "amx_bf16" in flags
    return device in ("auto", "cpu") and has_units and survives_bfloat16()


def has_float16(device: str) -> bool:
    """Whether a GPU multiplies float16 in tensor cores, as those before bfloat16 (V100, T4) do."""
    return _is_cuda(device) and torch.cuda.get_device_capability() >= _TENSOR_CORES


def _is_cuda(device: str) -> bool:
    return device in ("cuda", "auto") and torch.cuda.is_available()


@cache
def survives_bfloat16() -> bool:
    """Whether multiplying bfloat16 works on this processor, or kills the process.

    Some virtual machines announce matrix units (AMX) that they do not have: the first
    multiplication is an illegal instruction. So another process tries it, where there are such
    units; that takes two seconds, once.
    """
    if "amx_bf16" not in _read_processor_flags():
        return True
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Within the block, freed memory stays with the process, and goes back to the system after it.

    Each step of a training allocates the same large activations. The C library would return each
    to the system when it is freed, which has to clear it before it hands it out again: a tenth of
    the time of a step. Only glibc has this switch; elsewhere nothing happens. The
    limits set afterwards are fixed ones, near those that glibc arrives at by itself.
    """
    library = _load_glibc()
    if library is None:
        yield
        return
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, _KEEP_ALL)
    try:
        yield
    finally:
        library.mallopt(_MMAP_MAX, _USUAL_MAPS)
        library.mallopt(_MMAP_THRESHOLD, _USUAL_THRESHOLD)
        library.mallopt(_TRIM_THRESHOLD, 2 * _USUAL_THRESHOLD)
        library.malloc_trim(0)


@cache
def _load_glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None


def _read_processor_flags() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text() if path.exists() else ""
