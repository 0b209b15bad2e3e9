"""Figures, files and the page of a benchmark."""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.figure import Figure

from bench_frames import build_results, number_of, stage1_frame, stage2_frame
from uqled.bench.results import figures, result_files, statistics
from uqled.bench.results.figures import RenderedFigure
from uqled.bench.results.result_files import format_same_images, format_sensitivity, write_results
from uqled.bench.results.statistics import SeedSample


class TestDrawing:
    @pytest.mark.parametrize("span", [0.002, 0.01, 0.04, 0.125, 0.6])
    def test_ticks_are_labelled_with_what_they_are(self, span: float) -> None:
        change = {0.1: {"cl-mcd": SeedSample(-span), "cl-mcd-e": SeedSample(span / 4)}}
        figure = figures.draw_relative_changes(change, "F1")
        figure.canvas.draw()
        (axes,) = figure.axes
        ticks = axes.get_xticks()
        labels = [number_of(tick.get_text()) for tick in axes.get_xticklabels()]
        assert len(ticks) > 2
        assert labels == pytest.approx(list(ticks), abs=1e-9)

    @pytest.mark.parametrize(("seeds", "fill"), [((0,), "none"), ((0, 1), "full")])
    def test_marks_of_one_seed_are_hollow(self, seeds: tuple[int, ...], fill: str) -> None:
        sample = SeedSample(0.1, {seed: 0.1 + seed / 100 for seed in seeds})
        columns = {0.1: {"cl-mcd": sample, "cl-mcd-e": sample}}
        for figure in (
            figures.draw_relative_changes(columns, "F1"),
            figures.draw_precision_recall(columns, columns),
            figures.draw_rates({"mnist": {0.1: sample}}),
        ):
            (axes,) = figure.axes
            marked_lines = [
                line for line in axes.lines if line.get_marker() not in ("None", "|", "")
            ]
            assert {line.get_fillstyle() for line in marked_lines} == {fill}

    def test_accuracies_that_differ_by_noise_are_not_judged(self) -> None:
        correlation = statistics.compute_correlation([0.5, 0.6, 0.7], [0.701, 0.702, 0.7025])
        noisy_analysis = statistics.Analysis(
            {"cl-pbnr": (0.5, 0.701), "cl-mcd": (0.6, 0.702), "cl-mcd-e": (0.7, 0.7025)},
            correlation,
        )
        distant_analysis = replace(
            noisy_analysis, points={**noisy_analysis.points, "cl-mcd-e": (0.7, 0.72)}
        )
        for analysis, is_judged in ((noisy_analysis, False), (distant_analysis, True)):
            figure = figures.draw_scatter(analysis, "F1", "accuracy", of_methods=True)
            (axes,) = figure.axes
            assert (statistics.UNJUDGED not in axes.get_title(loc="left")) == is_judged


class TestWriting:
    def test_all_files_are_written_and_the_same_every_time(self, tmp_path: Path) -> None:
        results = build_results(pilot=stage1_frame(rates=(0.1,), seeds=(0,)))
        shuffled_results = {
            name: getattr(results, name).sample(frac=1, random_state=3)
            for name in ("pilot", "stage1", "stage2", "initial")
        }
        first = write_results(results, tmp_path / "a")
        second = write_results(replace(results, **shuffled_results), tmp_path / "b")
        names = [path.relative_to(tmp_path / "a") for path in first]
        assert names == [path.relative_to(tmp_path / "b") for path in second]
        for one, other in zip(first, second, strict=True):
            assert one.read_bytes() == other.read_bytes(), one.name
        expected_files = {
            f"{s}.{end}" for s in ("stage1", "stage2", "pilot") for end in ("md", "tex", "csv")
        }
        expected_files |= {"sensitivity.md", "results.html"}
        assert expected_files <= {str(name) for name in names}
        figures = {name.stem for name in names if name.parent.name == "figures"}
        assert {"stage1-relative-mnist", "stage1-plane-mnist", "stage2-relative-mnist"} <= figures
        assert {"sensitivity-rates", "sensitivity-final", "transition-mnist-0.1"} <= figures
        paths = {path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*")}
        assert paths == set(names)

    @pytest.mark.parametrize(
        "changes",
        [
            {"stage1": pd.DataFrame(), "stage2": pd.DataFrame(), "initial": pd.DataFrame()}
            | {"matrices": {}, "about": {}},
            {"stage2": pd.DataFrame(), "initial": pd.DataFrame()},
            {"stage1": pd.DataFrame()},
            {"stage1": stage1_frame(methods=["argmax"], seeds=(4,), rates=(0.1,))},
            {"stage1": stage1_frame().assign(rate=math.nan).drop_duplicates(["seed", "method"])},
            {"stage1": stage1_frame().assign(f1=math.nan, aupr=math.nan)},
            {"stage1": stage1_frame().assign(f1=0.0, precision=0.0, recall=0.0)},
            {"stage2": stage2_frame().query("treatment == 'clean'")},
            {"stage2": stage2_frame().query("treatment == 'noisy' and seed == 0")},
            {"stage2": stage2_frame().query("treatment == 'relabel'")},
            {"stage2": stage2_frame().query("treatment == 'remove' and method == 'cl-mcd'")},
            {"stage2": stage2_frame().drop(index=range(0, 40, 3))},
        ],
        ids="+".join,
    )
    def test_a_benchmark_that_is_still_running(
        self, changes: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(result_files, "render_figure", _without_png)
        write_results(build_results(**changes), tmp_path)
        for path in [*tmp_path.glob("*.md"), tmp_path / "results.html"]:
            text = re.sub(r"base64,[^\"]*", "", path.read_text(encoding="utf-8"))
            assert not re.search(r"\bnan\b", text, re.IGNORECASE), path.name

    def test_the_page_stands_alone_and_escapes_names(self, tmp_path: Path) -> None:
        frame = stage1_frame(("<b>set</b>",), methods=["cl-pbnr", "<script>x</script>", "$a_b"])
        write_results(build_results(stage1=frame, name="<i>"), tmp_path)
        text = (tmp_path / "results.html").read_text(encoding="utf-8")
        reader = ElementReader()
        reader.feed(text)
        assert reader.open == []
        assert reader.outside == []
        assert not {"script", "b", "i", "link", "iframe"} & reader.requested_names
        assert "&lt;script&gt;x&lt;/script&gt;" in text
        assert len(reader.ids) == len(set(reader.ids))

    def test_data_sets_of_the_same_images_are_named(self) -> None:
        about = {"same_images": [["CIFAR-10, pretrained", "CIFAR-10"], ["mine", "mine too"]]}
        assert format_same_images(about, ["MNIST", "CIFAR-10", "mine"]) == ""
        note = format_same_images(about, ["CIFAR-10, pretrained", "MNIST", "CIFAR-10"])
        assert note.startswith("CIFAR-10, pretrained and CIFAR-10 are the same images")
        names = ("CIFAR-10", "CIFAR-10 again", "MNIST")
        results = build_results(stage1=stage1_frame(names), stage2=stage2_frame(names))
        same_images = {"same_images": [["CIFAR-10", "CIFAR-10 again"]]}
        text = format_sensitivity(statistics.analyse_sensitivity(results), same_images)
        assert "count as 2 data sets" in text

    def test_names_in_the_analyses_are_no_markup(self) -> None:
        names = ("a|b", "*c*")
        results = build_results(stage1=stage1_frame(names), stage2=stage2_frame(names))
        text = format_sensitivity(statistics.analyse_sensitivity(results), results.about)
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4, 7}
        assert r"a\|b" in text
        assert r"within \*c\*" in text


class ElementReader(HTMLParser):
    """Which elements a page has, which stay open, and what it would load from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.requested_names: set[str] = set()
        self.outside: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.requested_names.add(tag)
        if tag not in ("meta", "br", "img", "input", "!doctype"):
            self.open.append(tag)
        self._look(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.requested_names.add(tag)
        self._look(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _look(self, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("src", "href", "xlink:href") and not str(value).startswith(("#", "data:")):
                self.outside.append(str(value))
            if key == "id":
                self.ids.append(str(value))


def _without_png(figure: Figure) -> RenderedFigure:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return RenderedFigure(b"", text.getvalue())
