"""The documents are true: examples run, commands exist, options have help, links lead somewhere."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import uqled
from uqled.cli import app
from uqled.detect.methods.registry import parse_method

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted(
    module.name for module in pkgutil.walk_packages(uqled.__path__, "uqled.") if module.name
)


#: Tutorials run with their commands, in tests/cli/test_tutorials.py.
GUIDES = [path for path in DOCUMENTS if path.parent.name != "tutorials"]


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.name)
def test_examples_in_documents_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    n_failed, _ = doctest.testfile(str(path), module_relative=False)
    assert n_failed == 0


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    n_failed, _ = doctest.testmod(importlib.import_module(name))
    assert n_failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!http)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_the_map_names_files_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    files = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:/|\.py|\.js))`", text)
    assert len(files) > 40
    for name in files:
        homes = [ROOT, *(ROOT / "src" / "uqled", ROOT / "src" / "uqled" / "detect")]
        homes += [path for path in (ROOT / "src" / "uqled").iterdir() if path.is_dir()]
        assert any((home / name).exists() for home in homes), name


def commands():
    return typer.main.get_command(app).commands


def test_every_command_and_option_is_explained():
    for name, command in commands().items():
        assert command.help, name
        for option in command.params:
            assert getattr(option, "help", None), f"{name} {option.name}"
    for name in (None, *commands()):
        result = CliRunner().invoke(app, [*([name] if name else []), "--help"])
        assert result.exit_code == 0


def test_the_help_states_which_agreements_there_are():
    option = next(one for one in commands()["detect"].params if one.name == "agreement")
    numbers = parse_method("alg-ens").method.agreements
    assert f"from {min(numbers)} to {max(numbers)}." in option.help


def test_commands_in_documents_exist():
    makefile = (ROOT / "Makefile").read_text()
    known_names = {
        name: {flag for option in command.params for flag in option.opts}
        for name, command in commands().items()
    }
    for path in DOCUMENTS:
        for block in re.findall(r"```sh\n(.*?)```", path.read_text(), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["make"]:
                    assert f"\n{words[1]}:" in makefile, line
                if words[:1] == ["uqled"]:
                    assert words[1] in known_names, line
                    flags = {word for word in words[2:] if word.startswith("--")}
                    assert flags <= known_names[words[1]], line


def test_public_names_exist():
    for name in uqled.__all__:
        assert getattr(uqled, name) is not None
    assert set(uqled.__all__) <= set(dir(uqled))
    with pytest.raises(AttributeError, match="magic"):
        _ = uqled.magic


#: Imports to the right that run only when somebody calls the method that needs them, or that are
#: of types only.
DOORS = {
    "detect/result.py": {"report"},
    "data/dataset.py": {"report"},
    "storage/run.py": {"report", "detect"},
    "storage/issue_tables.py": {"detect"},
}


def test_rooms_import_only_from_their_left():
    order = ["data", "noise", "models", "features", "predict", "detect"]
    order += ["report", "review", "export", "check", "bench"]
    order += ["compat", "finding", "cleaner", "demo", "cli"]
    ground = {"errors", "limits", "arrays", "uncertainty", "progress", "storage", "answer"}
    ground |= {"model_quality", "engines", "terminal", "registry"}
    source = ROOT / "src" / "uqled"
    allowed_rooms = {room: ground | set(order[: place + 1]) for place, room in enumerate(order)}
    allowed_rooms |= dict.fromkeys(ground, ground)
    all_modules = {path.stem for path in source.iterdir() if path.name[:1] != "_"} - {
        "py"
    }  # py.typed
    assert all_modules == allowed_rooms.keys()
    for room, rooms in allowed_rooms.items():
        for path in [source / f"{room}.py", *(source / room).rglob("*.py")]:
            if path.exists():
                names = imported_rooms(path) - DOORS.get(str(path.relative_to(source)), set())
                assert names <= rooms | {"__version__"}, f"{path} imports {names - rooms}"


#: Made by scripts.
RESULTS = ROOT / "benchmarks" / "results"


def list_source_folders():
    for top in ("src", "tests", "benchmarks", "docs"):
        for folder in [ROOT / top, *sorted((ROOT / top).rglob("*/"))]:
            if "__pycache__" not in folder.parts and RESULTS not in (folder, *folder.parents):
                endings = (".py", ".js", ".css", ".md")
                yield folder, [path for path in folder.iterdir() if path.suffix in endings]


def test_no_folder_has_more_than_fifteen_files():
    sizes = {str(folder.relative_to(ROOT)): len(files) for folder, files in list_source_folders()}
    assert len(sizes) > 50
    assert {name: n for name, n in sizes.items() if n > 15} == {}


def test_no_file_has_more_than_450_lines():
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for _, files in list_source_folders()
        for path in files
        if path.suffix != ".md"
    }
    assert len(sizes) > 400
    assert {name: n for name, n in sizes.items() if n > 450} == {}


#: Defined in several modules on purpose: what each entry of a registry is called there, commands
#: named as the function that they call, and short names of array types.
REPEATED_NAMES = {"READER", "make_encoder", "make_learner", "predict_held_out", "find", "inspect"}
REPEATED_NAMES |= {"Bools", "Floats", "Ints"}


def test_a_public_name_is_defined_once():
    homes = {}
    source = ROOT / "src" / "uqled"
    for path in source.rglob("*.py"):
        if path.parent.name != "kernels":  # NumPy's twins of compiled kernels
            for name in public_definitions(path) - REPEATED_NAMES:
                homes.setdefault(name, []).append(str(path.relative_to(source)))
    assert len(homes) > 1_000
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def public_definitions(path):
    """The functions, classes, constants and types that a module defines, but for type variables."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign) and "TypeVar(" not in ast.unparse(node.value):
            names |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_")}


def imported_rooms(path):
    """The rooms of uqled that a file imports anything from."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            rooms |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "uqled":
            rooms |= {f"uqled.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            rooms.add(node.module)
    return {name.split(".")[1] for name in rooms if name.startswith("uqled.")}


def test_names_that_benchmarks_import_from_each_other_exist():
    """Most benchmarks are too slow to run in a test: a name that moved would go unnoticed."""
    folder = ROOT / "benchmarks"
    n_checked = 0
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
                continue
            place = folder.joinpath(*node.module.split("."))
            file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
            if not file.is_file():
                continue
            defined_names = set(list_defined_names(ast.parse(file.read_text())))
            defined_names |= {one.stem for one in place.glob("*.py")}
            for alias in node.names:
                assert alias.name in defined_names, f"{path.name}: {node.module}.{alias.name}"
                n_checked += 1
    assert n_checked > 30


def list_defined_names(tree):
    """The names that a module defines or imports at its top level."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (
                one.id
                for target in targets
                for one in ast.walk(target)
                if isinstance(one, ast.Name)
            )
