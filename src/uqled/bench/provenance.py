"""How a result was made: code version, machine, packages; nothing that names a place."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from uqled.storage.run import list_package_versions

PACKAGES = ("uqled", "numpy", "scikit-learn", "torch")


@cache
def describe_provenance(packages: tuple[str, ...] = PACKAGES) -> dict[str, Any]:
    """Code version, hardware and versions of packages."""
    return {
        "code": find_code_version(),
        **describe_hardware(),
        "versions": list_package_versions(packages),
    }


def describe_hardware() -> dict[str, Any]:
    """Processor, its vector instructions, cores, memory, Python."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    flags = {
        flag for line in lines if line.startswith(("flags", "Features")) for flag in line.split()
    }
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": names[0] if names else platform.processor(),
        "instructions": describe_instructions(flags),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "python": platform.python_version(),
    }


def describe_instructions(flags: set[str]) -> str:
    """The widest vector instructions that these processor flags allow, and what restricts them."""
    names_by_flag = {"avx512f": "AVX-512", "avx2": "AVX2", "sve": "SVE", "asimd": "NEON"}
    widest = next(
        (name for flag, name in names_by_flag.items() if flag in flags), platform.machine()
    )
    target = os.environ.get("NUMBA_CPU_NAME")
    return f"{widest}, compiled for {target}" if target else widest


def find_code_version() -> str:
    """The commit where the code is a clone, else the package's version."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():  # installed, perhaps inside somebody else's repository
        return version("uqled")
    git_output = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return git_output.stdout.strip() or version("uqled")
