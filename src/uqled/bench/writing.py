"""The files of a benchmark's results: tables, figures and the page. Same frames, same bytes."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from uqled.bench.beside import beside_table, judged, judged_markdown, repeated
from uqled.bench.collected import Results
from uqled.bench.drawing import drawn, figures, file_stems
from uqled.bench.formats import latex, markdown, md_row, plain
from uqled.bench.page import correlation_rows, results_page
from uqled.bench.shown import DASH, listed, method_name, percent, rate_name
from uqled.bench.statistics import Means, Sensitivity, datasets, sensitivity
from uqled.bench.tables import Table, all_tables, stage1_csv, stage2_csv
from uqled.report.figures import transition_heat_map
from uqled.storage.atomic import replace_file


def write_results(results: Results, folder: Path, averages: Means | None = None) -> list[Path]:
    """Write everything a reader wants of a benchmark, finished or not, and return the files.

    `averages` stand in for the means over rates where those were published and the frames hold
    rounded numbers.
    """
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    analyses = sensitivity(results, averages)
    pictures = {stem: drawn(figure) for stem, figure in figures(results, analyses).items()}
    matrices = {stem: drawn(figure) for stem, figure in matrix_figures(results).items()}
    texts = texts_of(results, analyses, averages)
    texts["results.html"] = results_page(results, analyses, pictures, matrices, averages)
    written = []
    for name, text in texts.items():
        with replace_file(folder / name) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
        written.append(folder / name)
    for stem, picture in {**pictures, **matrices}.items():
        written += picture.write(folder / "figures", stem)
    return written


def matrix_figures(results: Results) -> dict[str, Figure]:
    """File stem -> heat map, one per data set and rate."""
    stems = file_stems(datasets(results))
    return {
        f"transition-{stems[name]}-{rate_name(rate)}": transition_heat_map(
            {f"{name}, noise rate {rate_name(rate)}": matrix}
        )
        for name, by_rate in results.matrices.items()
        for rate, matrix in sorted(by_rate.items())
    }


def sensitivity_markdown(analyses: Sensitivity) -> str:
    """The three analyses as text."""
    rates = list(dict.fromkeys(r for by_rate in analyses.mean_f1.values() for r in by_rate))
    lines = ["## Sensitivity analyses", "", "### 1. Noise rate and detection", ""]
    lines += [f"Mean F1 in per cent over {listed(map(method_name, analyses.methods))}.", ""]
    lines += [md_row(["", *map(rate_name, rates)]), md_row(["---", *["---:"] * len(rates)])]
    for name, by_rate in analyses.mean_f1.items():
        cells = [percent(by_rate[r].mean) if r in by_rate else DASH for r in rates]
        lines.append(md_row([plain(name), *cells]))
    lines += ["", "### 2 and 3. What goes together", ""]
    lines += [
        "Pearson's r, Student's t with n - 2 degrees of freedom, two-sided p, and Fisher's 95 % "
        "interval of r. Accuracy before cleaning is that of training on the noisy labels, as in "
        "the paper. F1 that is compared with accuracy after cleaning is of the same rates and "
        "seeds.",
        "",
        md_row(["", "n", "r", "t", "p", "95 % interval"]),
        md_row(["---", *["---:"] * 5]),
        *(md_row([plain(tested.name), *tested.cells]) for tested in correlation_rows(analyses)),
    ]
    if note := repeated(analyses.initial.points):
        lines += ["", note]
    return "\n".join(lines) + "\n"


def texts_of(
    results: Results, analyses: Sensitivity, averages: Means | None = None
) -> dict[str, str]:
    """File name -> text of every table."""
    tables = all_tables(results)
    found = {
        **_formats("stage1", tables["stage1"], stage1_csv(results.stage1)),
        **_formats("stage2", tables["stage2"], stage2_csv(results.stage2)),
        "sensitivity.md": sensitivity_markdown(analyses),
        "claims.md": judged_markdown(judged(results, averages)),
        "beside-paper.md": markdown(beside_table(results, averages)),
    }
    if not results.pilot.empty:
        found |= _formats("pilot", tables["pilot"], stage1_csv(results.pilot))
    return found


def _formats(stem: str, tables: list[Table], csv: str) -> dict[str, str]:
    shown = [table for table in tables if table.blocks] or tables[:1]
    return {
        f"{stem}.md": "\n".join(map(markdown, shown)),
        f"{stem}.tex": "\n".join(map(latex, shown)),
        f"{stem}.csv": csv,
    }
