"""Ask for known vulnerabilities of every pinned package: `make audit`.

A vulnerability that is not in `IGNORED` fails. A service that cannot be reached, or that knows
nothing of a package, is said loudly and fails nothing: a change cannot mend that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Asked in this order, until one knows some of the packages: options of pip-audit.
SERVICES = (["--vulnerability-service", "pypi"], ["--vulnerability-service", "osv"])
#: Vulnerability -> why it does no harm here, and until when that is looked at again.
IGNORED: dict[str, str] = {}
_SECONDS = 120  # for all packages together


def ask_service(service: list[str], constraints: Path) -> list[dict[str, Any]]:
    """What a service says of each package; empty if it cannot be reached."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(constraints)]
    command += ["--no-deps", "--disable-pip", "--format", "json", "--desc", "off"]
    command += ["--progress-spinner", "off", "--timeout", "10", *service]
    try:
        ended = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=_SECONDS
        )
        packages: list[dict[str, Any]] = json.loads(ended.stdout)["dependencies"]
    except (subprocess.TimeoutExpired, ValueError, KeyError):  # no answer, or no JSON
        return []
    return packages


def audit(constraints: Path, services: Any = SERVICES) -> int:
    """Print what is known of the packages that a file pins; the exit code."""
    if find_spec("pip_audit") is None:
        print("pip-audit is not installed: run pip install -c constraints.txt pip-audit")
        return 1
    packages: list[dict[str, Any]] = []
    for service in services:
        packages = ask_service(service, constraints)
        if any("skip_reason" not in package for package in packages):
            break
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if len(unknown) == len(packages):
        text = "NOTHING WAS AUDITED: no vulnerability service answers from here."
        print(f"WARNING: {text}")
        if "GITHUB_ACTIONS" in os.environ:  # shown on the page of the workflow, too
            print(f"::warning title=pip-audit::{text}")
        return 0
    if unknown:
        print(f"WARNING: not audited, unknown to the service: {', '.join(unknown)}")
    problems = [
        f"{package['name']} {package['version']}: {one['id']}, mended in "
        f"{', '.join(one['fix_versions']) or 'no version yet'}"
        for package in packages
        for one in package.get("vulns", [])
        if not IGNORED.keys() & {one["id"], *one.get("aliases", [])}
    ]
    print("\n".join(problems) or f"{len(packages) - len(unknown)} packages, none vulnerable")
    return int(bool(problems))


def collect_pins(folder: Path) -> list[str]:
    """Every line of the project's files of constraints that pins a package, once."""
    paths = folder.glob("constraints*.txt")
    lines = [line for path in paths for line in path.read_text().splitlines()]
    return sorted({line.strip() for line in lines if "==" in line})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder, "constraints.txt")
        pins.write_text("\n".join(collect_pins(ROOT)) + "\n")
        sys.exit(audit(pins))
