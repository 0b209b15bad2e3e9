"""The API reference has every public name, and says of each parameter what the code says."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import uqled

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = (ROOT / "docs" / "reference" / "api.md").read_text()
IN_REFERENCE = re.findall(r"^::: (uqled[\w.]+)$", REFERENCE, re.MULTILINE)
MODULES = ["noise", "uncertainty", "models", "data"]
COMPAT = ["filter", "rank", "count", "dataset", "classification", "datalab"]


def list_public_names(module_name):
    """What `__all__` lists; without one, what the module defines and its name does not hide."""
    module = importlib.import_module(module_name)
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module_name
    ]


def test_names_of_the_package_are_in_the_reference():
    for name in set(uqled.__all__):
        assert f"`uqled.{name}`" in REFERENCE or f"uqled.{name}" in IN_REFERENCE, name


@pytest.mark.parametrize("module", [*MODULES, *(f"compat.{name}" for name in COMPAT)])
def test_names_of_the_modules_are_in_the_reference(module):
    if module == "models":
        pytest.importorskip("torch")
    names = list_public_names(f"uqled.{module}")
    assert names
    for name in names:
        if f"uqled.{name}" in IN_REFERENCE or name == "compute_scores":  # not one of cleanlab's
            continue
        assert f"uqled.{module}.{name}" in IN_REFERENCE, name


def test_whatever_the_reference_names_explains_itself():
    assert len(IN_REFERENCE) == len(set(IN_REFERENCE))
    for address in IN_REFERENCE:
        module, _, name = address.rpartition(".")
        if module == "uqled.models":
            pytest.importorskip("torch")
        assert inspect.getdoc(getattr(importlib.import_module(module), name)), address


def test_parameters_have_their_own_default_and_type():
    """`model, folds` are explained together, and are a string and a number."""
    griffe = pytest.importorskip("griffe", reason="comes with `make docs`")
    extensions = griffe.load_extensions(ROOT / "tools" / "reference_parameters.py")
    package = griffe.load(
        "uqled",
        search_paths=[ROOT / "src"],
        extensions=extensions,
        docstring_parser="numpy",
        allow_inspection=False,
    )
    [section] = [
        one
        for one in package["finding.find"].docstring.parsed
        if one.kind is griffe.DocstringSectionKind.parameters
    ]
    documented_parameters = {one.name: (one.value, str(one.annotation)) for one in section.value}
    parameters = inspect.signature(uqled.find).parameters
    assert documented_parameters["model"] == (repr(parameters["model"].default), "Any")
    assert documented_parameters["folds"] == (repr(parameters["folds"].default), "int")
    assert documented_parameters["label"] == ("None", "Any")
    assert documented_parameters["data"] == (None, "Any")
