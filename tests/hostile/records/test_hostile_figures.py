"""Names and titles that mean something to matplotlib, fonts or XML are drawn as what they are."""

from __future__ import annotations

from dataclasses import replace
from xml.dom import minidom

import matplotlib as mpl
import numpy as np
import pytest

from bench_frames import build_results, stage1_frame, stage2_frame
from uqled.bench.results.figures import render_figure
from uqled.bench.results.result_files import write_results
from uqled.noise.transition import TransitionMatrix
from uqled.report.figures import escape_figure_text, save_figure, transition_heat_map

NASTY = [
    "$", "$x$", r"$\frac$", r"\$ $", r"a\b", "a^b_c", "two\nlines", "nul\x00", "\x1b[31m", "\ud800",
    "\uffff", "漢字", "שלום", "👍🏽", "<b onclick=x>&</b>", "_hidden", "%s", "{", "\u202e",
    "x" * 150, "--", "]]>", "\u2028", "&amp;", "\\", "^", "_",
]  # fmt: skip


PAIR = TransitionMatrix(np.array([[0.8, 0.2], [0.1, 0.9]]), ["$", "other"])


def texts_of(svg: str) -> set[str]:
    document = minidom.parseString(svg.encode())
    nodes = document.getElementsByTagName("text")
    return {"".join(child.data for child in node.childNodes).strip() for node in nodes}


def test_a_heat_map_shows_any_class_and_title():
    K = len(NASTY)
    matrix = TransitionMatrix(np.full((K, K), 1 / K), NASTY)
    figure = render_figure(transition_heat_map({"title " + "".join(NASTY): matrix}))
    assert figure.png.startswith(b"\x89PNG")
    assert {"$x$", "a^b_c", "_hidden", "<b onclick=x>&</b>", "two lines"} <= texts_of(figure.svg)


@pytest.mark.parametrize("title", ["$", r"$\frac$", "\x00", "\ud800", "\uffff"], ids=ascii)
def test_a_heat_map_shows_any_title(title):
    figure = render_figure(transition_heat_map({title: PAIR}))
    assert "other" in texts_of(figure.svg)


def test_dollars_and_backslashes_are_shown_as_they_are():
    matrix = TransitionMatrix(np.array([[0.8, 0.2], [0.1, 0.9]]), ["$a$ and $b$", r"\$ \alpha"])
    texts = texts_of(render_figure(transition_heat_map({r"$\frac$ of $x$": matrix})).svg)
    assert {"$a$ and $b$", r"\$ \alpha", r"$\frac$ of $x$"} <= texts
    assert (
        escape_figure_text("a\nb\x00c\ud800")
        == "a b\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}"
    )


def test_a_heat_map_is_written_with_any_title(tmp_path):
    for kind in ("svg", "pdf"):
        save_figure(transition_heat_map({r"$\frac$": PAIR}), tmp_path / f"map.{kind}")


def test_a_whole_benchmark_is_drawn_whatever_its_names(tmp_path):
    """All figures and the page: nothing may fail after hours of training."""
    names = (r"$\frac$", r"\ ^ _ % 漢字 👍🏽")
    results = replace(
        build_results(),
        stage1=stage1_frame(names, methods=["cl-pbnr", "$m$:f", r"\frac:$", "_x:y", "_"]),
        stage2=stage2_frame(names),
        matrices={
            name: {0.1: TransitionMatrix(np.array([[0.8, 0.2], [0.1, 0.9]]), [name, "\x00"])}
            for name in names
        },
    )
    figure_names = {path.stem for path in write_results(results, tmp_path)}
    kinds = {"stage1-relative", "stage1-plane", "stage2-relative", "sensitivity-", "transition"}
    assert {kind for kind in kinds if any(stem.startswith(kind) for stem in figure_names)} == kinds
    for path in (tmp_path / "figures").glob("*.svg"):
        minidom.parse(str(path))


def test_a_users_own_style_does_not_turn_names_into_tex():
    with mpl.rc_context({"text.usetex": True}):
        assert render_figure(transition_heat_map({"%": PAIR})).png.startswith(b"\x89PNG")
