"""Limits the instructions that compiled code and NumPy use, to measure older processors' speed."""

from __future__ import annotations

from typing import Any

#: What a processor with AVX2 has; without a list, Numba takes that of the machine.
_HASWELL = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse4.2"


def limit_to_avx2() -> dict[str, str]:
    """Environment variables for a process; empty where the processor has no AVX-512 anyway."""
    features, targets = _read_numpy_features()
    wide = [name for name in targets if name == "X86_V4" or name.startswith("AVX512")]
    present = [name for name in wide if features.get(name)]
    if not present:
        return {}
    return {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": _HASWELL,
        "NPY_DISABLE_CPU_FEATURES": " ".join(present),
        "OPENBLAS_CORETYPE": "Haswell",
    }


def _read_numpy_features() -> tuple[dict[str, Any], list[str]]:
    """What NumPy found in the processor, and what it has separate code for."""
    from numpy._core import _multiarray_umath as core  # type: ignore[attr-defined]

    return core.__cpu_features__, core.__cpu_dispatch__
