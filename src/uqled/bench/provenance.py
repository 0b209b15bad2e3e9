"""By what a result was made: code version, machine, packages; nothing that names a place."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

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
    """Processor, cores, memory, Python."""
    info = Path("/proc/cpuinfo")
    names = [
        line.split(":")[1].strip()
        for line in (info.read_text().splitlines() if info.exists() else ())
        if "model name" in line
    ]
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory / 2**30, 1),
        "python": platform.python_version(),
    }


def list_package_versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Versions of those packages that are installed."""
    versions = {}
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def find_code_version() -> str:
    """The commit where the code is a clone, else the package's version."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():  # installed, perhaps inside somebody else's repository
        return version("uqled")
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or version("uqled")
