"""The files of a benchmark's results: tables, figures and the page. Same frames, same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from uqled.bench.results.collection import Results
from uqled.bench.results.figures import draw_figures, name_files, render_figure
from uqled.bench.results.formatting import (
    DASH,
    format_method,
    format_percent,
    format_rate,
    join_words,
)
from uqled.bench.results.html_page import CorrelationRow, build_correlation_rows, render_page
from uqled.bench.results.noise_table import build_noise_table, format_noise_csv
from uqled.bench.results.statistics import Sensitivity, analyse_sensitivity, list_datasets
from uqled.bench.results.table_formats import (
    escape_markdown,
    format_latex,
    format_markdown,
    format_markdown_row,
)
from uqled.bench.results.tables import (
    ResultTable,
    build_tables,
    format_stage1_csv,
    format_stage2_csv,
)
from uqled.report.figures import transition_heat_map
from uqled.storage.atomic import replace_file


def write_results(results: Results, folder: Path) -> list[Path]:
    """Write everything a reader wants of a benchmark, finished or not, and return the files."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    analyses = analyse_sensitivity(results)
    pictures = {
        stem: render_figure(figure) for stem, figure in draw_figures(results, analyses).items()
    }
    matrices = {
        stem: render_figure(figure) for stem, figure in draw_matrix_figures(results).items()
    }
    texts = format_texts(results, analyses)
    texts["results.html"] = render_page(results, analyses, pictures, matrices)
    paths = []
    for name, text in texts.items():
        with replace_file(folder / name) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
        paths.append(folder / name)
    for stem, picture in {**pictures, **matrices}.items():
        paths += picture.write(folder / "figures", stem)
    return paths


def draw_matrix_figures(results: Results) -> dict[str, Figure]:
    """File stem -> heat map, one per data set and rate."""
    stems = name_files(list_datasets(results))
    return {
        f"transition-{stems[name]}-{format_rate(rate)}": transition_heat_map(
            {f"{name}, noise rate {format_rate(rate)}": matrix}
        )
        for name, by_rate in results.matrices.items()
        for rate, matrix in sorted(by_rate.items())
    }


def format_sensitivity(analyses: Sensitivity, about: Mapping[str, Any]) -> str:
    """The three analyses as text; `about` is that of the results."""
    rates = list(dict.fromkeys(r for by_rate in analyses.mean_f1.values() for r in by_rate))
    lines = ["## Sensitivity analyses", "", "### 1. Noise rate and detection", ""]
    lines += [f"Mean F1 in per cent over {join_words(map(format_method, analyses.methods))}.", ""]
    lines += [
        format_markdown_row(["", *map(format_rate, rates)]),
        format_markdown_row(["---", *["---:"] * len(rates)]),
    ]
    for name, by_rate in analyses.mean_f1.items():
        cells = [format_percent(by_rate[r].mean) if r in by_rate else DASH for r in rates]
        lines.append(format_markdown_row([escape_markdown(name), *cells]))
    lines += ["", "### 2 and 3. Correlations", ""]
    lines += [
        "Pearson's r, Student's t with n - 2 degrees of freedom, two-sided p, and Fisher's 95% "
        "interval of r. Accuracy before cleaning is that of training on the noisy labels, as in "
        "the paper. F1 that is compared with accuracy after cleaning is of the same rates and "
        "seeds.",
        "",
        format_markdown_row(["", "n", "r", "t", "p", "95% interval"]),
        format_markdown_row(["---", *["---:"] * 5]),
        *(
            format_markdown_row([escape_markdown(_join_note(row)), *row.cells])
            for row in build_correlation_rows(analyses)
        ),
    ]
    if note := format_same_images(about, analyses.initial.points):
        lines += ["", note]
    return "\n".join(lines) + "\n"


def _join_note(row: CorrelationRow) -> str:
    return f"{row.name} ({row.note})" if row.note else row.name


def format_same_images(about: Mapping[str, Any], names: Iterable[str]) -> str:
    """A sentence on those of the named data sets that share their images; empty if none do."""
    current_names = set(names)
    groups = [
        [one for one in group if one in current_names] for group in about.get("same_images", ())
    ]
    return " ".join(
        f"{join_words(map(escape_markdown, group))} are the same images with different networks, "
        f"and count as {len(group)} data sets: their points are not independent."
        for group in groups
        if len(group) > 1
    )


def format_texts(results: Results, analyses: Sensitivity) -> dict[str, str]:
    """File name -> text of every table."""
    tables = build_tables(results)
    texts = {
        **_format_table_files("stage1", tables["stage1"], format_stage1_csv(results.stage1)),
        **_format_table_files("stage2", tables["stage2"], format_stage2_csv(results.stage2)),
        "sensitivity.md": format_sensitivity(analyses, results.about),
    }
    if not results.pilot.empty:
        texts |= _format_table_files("pilot", tables["pilot"], format_stage1_csv(results.pilot))
    if results.matrices:
        noise = build_noise_table(results)
        texts |= _format_table_files("noise", [noise], format_noise_csv(results))
    return texts


def _format_table_files(stem: str, tables: list[ResultTable], csv: str) -> dict[str, str]:
    filled_tables = [table for table in tables if table.blocks] or tables[:1]
    return {
        f"{stem}.md": "\n".join(map(format_markdown, filled_tables)),
        f"{stem}.tex": "\n".join(map(format_latex, filled_tables)),
        f"{stem}.csv": csv,
    }
