"""What strangers install and read: metadata, workflows, one list of versions per purpose."""

from __future__ import annotations

import doctest
import importlib.util
import re
import subprocess
import sys
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
    # ipywidgets, which the widget for notebooks needs, brings this folder of scripts.
    assert {name for name in users if "jupyter" in name} <= {"jupyterlab-widgets"}


def test_the_pythons_of_the_classifiers_are_tested():
    matrix = read_yaml(".github/workflows/tests.yml")["jobs"]["systems"]["strategy"]["matrix"]
    versions = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert matrix["python"] == versions
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


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("vendor.github-workflows", ".github/workflows/*.yml"),
        ("vendor.github-actions", "action.yml"),
        ("vendor.citation-file-format", "CITATION.cff"),
    ],
)
def test_files_for_other_tools_follow_their_schemas(schema, pattern):
    """By the schemas that check-jsonschema carries with it."""
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    paths = list(map(str, ROOT.glob(pattern)))
    process = subprocess.run([*command, *paths], capture_output=True, text=True, check=False)
    assert paths
    assert process.returncode == 0, process.stdout + process.stderr


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
    sdist_files = hatch["targets"]["sdist"]["include"]
    for path in sdist_files:
        assert list(ROOT.glob(path)), path
    texts = [path.read_text() for path in (ROOT / "tests").rglob("*.py")]
    named_files = {name for text in texts for name in re.findall(r'ROOT / "([\w.-]+)', text)}
    assert {"README.md", ".dockerignore", "Makefile"} <= named_files
    for name in named_files:
        assert any(Path(name).match(path) for path in sdist_files) or name == "pyproject.toml", name


def test_what_is_downloaded_for_the_demo_is_said_before():
    path = ROOT / ".ci" / "announce.py"
    spec = importlib.util.spec_from_file_location("announce", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    n_failed, n_tried = doctest.testmod(module)
    assert n_failed == 0
    assert n_tried > 3
    makefile = (ROOT / "Makefile").read_text()
    assert makefile.index(".ci/announce.py torch") < makefile.index("$(INSTALL) torch")


def test_the_image_has_the_python_and_the_pins_of_the_tests():
    dockerfile, makefile = (ROOT / "Dockerfile").read_text(), (ROOT / "Makefile").read_text()
    [python] = re.findall(r"FROM python:([\d.]+)-slim", dockerfile)
    assert f"python{python}" in makefile
    jobs = read_yaml(".github/workflows/tests.yml")["jobs"]
    [setup] = [step for step in jobs["tests"]["steps"] if "setup-python" in step.get("uses", "")]
    assert setup["with"]["python-version"] == python
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    [torch] = re.findall(r"torch==([\d.]+)", dockerfile)
    assert any(re.fullmatch(rf"torch=={re.escape(torch)}(\+cpu)?", pin) for pin in pins)
    assert f"torch=={torch}" in makefile
    [extras] = re.findall(r"/source\[([\w,]+)\]", dockerfile)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    ignored_lines = (ROOT / ".dockerignore").read_text().splitlines()
    for line in re.findall(r"^COPY (.+) \S+$", dockerfile, re.MULTILINE):
        for name in line.split():
            assert (ROOT / name).exists(), name
            assert f"!{name}" in ignored_lines, f".dockerignore keeps {name} from the image"


def load_package_metadata():
    path = ROOT / "tools" / "package_metadata.py"
    spec = importlib.util.spec_from_file_location("package_metadata", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_of_the_readme_work_on_pypi():
    module = load_package_metadata()
    assert doctest.testmod(module).failed == 0
    text = module.make_links_absolute((ROOT / "README.md").read_text(), "https://h.org/o/uqled")
    assert not re.findall(r"\]\((?!https://)[^)]+\)", text)
    for name in re.findall(r"https://h.org/o/uqled/(?:blob|raw)/main/([^)#]+)", text):
        assert (ROOT / name).exists(), name


def test_no_placeholder_stands_for_an_address():
    for path in (ROOT / "README.md", ROOT / "pyproject.toml", *(ROOT / "docs").rglob("*.md")):
        assert not re.search(r"OWNER/uqled|example\.com/uqled", path.read_text()), path
    workflow = read_yaml(".github/workflows/publish.yml")
    address = workflow["jobs"]["build"]["env"]["UQLED_REPOSITORY"]
    assert address == "${{ github.server_url }}/${{ github.repository }}"


def test_every_page_of_the_site_has_its_place():
    """`make docs` fails where a page is not in the navigation, or is there and does not exist."""
    text = (ROOT / "mkdocs.yml").read_text()
    listed_pages = re.findall(r"[\w/-]+\.md$", text.split("\nnav:")[1], flags=re.MULTILINE)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(listed_pages) == sorted({"index.md", *pages})
    # What mkdocs_hooks.py adds from outside docs/ is linked to, and in no list.
    assert re.search(r"^not_in_nav: /repository/", text, flags=re.MULTILINE)
