"""What strangers install and read: metadata, workflows, one list of versions per purpose."""

from __future__ import annotations

import doctest
import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def read_yaml(name):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / name).read_text())


def read_pins(name):
    lines = (ROOT / name).read_text().splitlines()
    return {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines if "==" in line}


def test_every_dependency_has_a_lower_bound_and_a_pin():
    pins = read_pins("constraints.txt")
    for requirement in PROJECT["dependencies"]:
        name, bound, _ = re.match(r"([\w-]+)(>=)?(.*)", requirement).groups()
        assert bound, requirement
        assert name in pins, name


def test_packages_of_benchmarks_are_not_pinned_for_users():
    users, peers = read_pins("constraints.txt"), read_pins("constraints-bench.txt")
    assert not users & peers
    assert {"baal", "skorch", "jupyterlab"} <= peers
    assert not {name for name in users if "jupyter" in name}


def test_the_pythons_of_the_classifiers_are_tested():
    matrix = read_yaml(".github/workflows/tests.yml")["jobs"]["systems"]["strategy"]["matrix"]
    classified = [
        line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if "Python :: 3." in line
    ]
    assert matrix["python"] == classified
    assert {name.split("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_workflows_call_what_exists():
    makefile = (ROOT / "Makefile").read_text()
    for name in ("tests.yml", "publish.yml"):
        workflow = read_yaml(f".github/workflows/{name}")
        assert workflow["permissions"] == {"contents": "read"}
        for job in workflow["jobs"].values():
            for step in job["steps"]:
                for word in re.findall(r"(\.ci/\w+|tests/\w+\.py)", step.get("run", "")):
                    assert (ROOT / word).is_file(), word
                for target in re.findall(r"make (\w+)", step.get("run", "")):
                    assert f"\n{target}:" in makefile, target


def test_only_the_last_step_may_publish():
    jobs = read_yaml(".github/workflows/publish.yml")["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["needs"] == "build"
    assert "permissions" not in jobs["build"]


def test_the_citation_has_this_version_and_the_paper():
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == PROJECT["version"]
    [paper] = citation["references"]
    assert len(paper["authors"]) == 5


def test_the_sdist_holds_what_the_tests_look_at():
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    included = hatch["targets"]["sdist"]["include"]
    for path in included:
        assert list(ROOT.glob(path)), path


def test_what_is_downloaded_for_the_demo_is_said_before():
    path = ROOT / ".ci" / "announce.py"
    spec = importlib.util.spec_from_file_location("announce", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    failed, tried = doctest.testmod(module)
    assert failed == 0
    assert tried > 3
    makefile = (ROOT / "Makefile").read_text()
    assert makefile.index(".ci/announce.py torch") < makefile.index("$(INSTALL) torch")
