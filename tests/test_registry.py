"""Registries: the package's own entries, and those that other packages add by entry points."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint, entry_points

import pytest

from uqled import registry
from uqled.errors import InputError
from uqled.registry import Registry

GROUP = "uqled.shapes"


@pytest.fixture
def shapes(monkeypatch):
    points = [
        EntryPoint("circle", "math:pi", GROUP),
        EntryPoint("broken", "no_such_module:thing", GROUP),
        EntryPoint("square", "math:e", GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == GROUP else [])
    return Registry(GROUP, {"square": "math:sqrt"}, argument="shape")


def test_own_entries_come_first_and_others_by_entry_point(shapes):
    assert shapes.names() == ["square", "broken", "circle"]
    assert shapes.load("square")(9) == 3
    assert shapes.load("circle") == pytest.approx(3.14159, abs=1e-5)
    assert "circle" in shapes
    assert "triangle" not in shapes


def test_what_cannot_be_loaded_is_named(shapes):
    with pytest.raises(InputError, match=r"shape is 'triangle'. Choose one of square, broken"):
        shapes.load("triangle")
    with pytest.raises(InputError, match=r"'broken' is an entry point \(no_such_module:thing\)"):
        shapes.load("broken")


def test_a_package_installed_meanwhile_is_noticed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    shapes = Registry(GROUP, {"square": "math:sqrt"})
    calls = []

    def note_call(group):
        calls.append(group)
        return entry_points(group=group)

    monkeypatch.setattr(registry, "entry_points", note_call)
    assert shapes.names() == shapes.names() == ["square"]
    assert len(calls) == 1  # whoever asks again is answered from memory
    package = tmp_path / "circles-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: circles\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{GROUP}]\ncircle = math:pi\n")
    os.utime(tmp_path, ns=(0, 0))  # changed, however coarse the clock of the file system
    assert shapes.names() == ["square", "circle"]
