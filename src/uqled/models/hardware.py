"""What this machine's hardware can do, tested rather than looked up."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

_PROBE = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); (x @ x).sum()"
_PROBE_SECONDS = 60
_TENSOR_CORES = (7, 0)  # the first compute capability that has them


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


def _read_processor_flags() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text() if path.exists() else ""
