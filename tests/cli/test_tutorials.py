"""Every tutorial does what it says; one of them in the suite, the others in `make test-slow`."""

from __future__ import annotations

import re

import pytest

from tutorial_pages import TUTORIALS, list_tutorials, run_page

FAST_TUTORIAL = "dataframe.md"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, marks=[] if path.name == FAST_TUTORIAL else [pytest.mark.slow], id=path.stem
        )
        for path in list_tutorials()
    ],
)
def test_the_page_does_what_it_says(path, tmp_path, monkeypatch):
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "work"
    folder.mkdir()
    steps, _ = run_page(path, folder)
    assert steps >= 4


def test_each_tutorial_is_listed_and_has_a_picture():
    names = {"photos", "texts", "dataframe", "predictions", "from-cleanlab", "cluster"}
    assert {path.stem for path in list_tutorials()} == names
    index = (TUTORIALS / "index.md").read_text()
    for path in list_tutorials():
        assert f"({path.name})" in index
        pictures = re.findall(r"!\[.+\]\((images/[\w.-]+)\)", path.read_text())
        assert pictures, path.name
        for name in pictures:
            assert (TUTORIALS / name).is_file(), name


def test_a_page_that_says_something_else_fails(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\n>>> x = 1\n\n```\n\n```python\n>>> x\n2\n\n```\n")
    with pytest.raises(AssertionError, match="Expected"):
        run_page(page, tmp_path)
    page.write_text("```console\n$ uqled --version\nuqled 99\n```\n")
    with pytest.raises(AssertionError, match="uqled --version"):
        run_page(page, tmp_path)
