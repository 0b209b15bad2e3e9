"""Say what pip is about to download for PyTorch, before it does: `announce.py torch==2.13.0`.

On Linux the usual index has a build for GPUs, whose gigabytes the example does not need.
"""

from __future__ import annotations

import json
import subprocess
import sys

CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def list_packages(words: list[str]) -> list[dict] | None:
    """What pip would install, or None if it does not say."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)["install"]
    except (ValueError, KeyError):
        return None


def describe_packages(packages: list[dict] | None) -> str:
    """What will be downloaded, and how to download less.

    >>> torch = {"metadata": {"name": "torch", "version": "2.13.0+cpu"}}
    >>> print(describe_packages([torch]))
    Downloading PyTorch 2.13.0+cpu, a build without GPU packages (about 200 MB).
    >>> print(describe_packages([torch, {"metadata": {"name": "nvidia-cublas", "version": "13"}}]))
    Downloading PyTorch 2.13.0+cpu with 1 GPU packages: several gigabytes.
    For the build without them (about 200 MB): make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu
    >>> print(describe_packages([]))
    PyTorch is installed already.
    """
    if packages is None:
        return "Downloading PyTorch; pip does not say how large it is here."
    versions = {one["metadata"]["name"].lower(): one["metadata"]["version"] for one in packages}
    if "torch" not in versions:
        return "PyTorch is installed already."
    gpu = [
        name for name in versions if name.startswith(("nvidia", "cuda", "triton", "pytorch-triton"))
    ]
    torch = f"Downloading PyTorch {versions['torch']}"
    if not gpu:
        return f"{torch}, a build without GPU packages (about 200 MB)."
    return (
        f"{torch} with {len(gpu)} GPU packages: several gigabytes.\n"
        f"For the build without them (about 200 MB): make demo TORCH_INDEX={CPU_INDEX}"
    )


if __name__ == "__main__":
    print(describe_packages(list_packages(sys.argv[1:])), flush=True)
