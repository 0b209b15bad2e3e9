"""The files of a benchmark's results: tables, figures and the page. Same frames, same bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from uqled.bench.collected import Results
from uqled.bench.drawing import drawn, figures, file_stems
from uqled.bench.formats import latex, markdown, md_row, plain
from uqled.bench.page import correlation_rows, results_page
from uqled.bench.shown import DASH, listed, method_name, percent, rate_name
from uqled.bench.statistics import Sensitivity, datasets, sensitivity
from uqled.bench.tables import Table, all_tables, stage1_csv, stage2_csv
from uqled.report.figures import transition_heat_map
from uqled.storage.atomic import replace_file


def write_results(results: Results, folder: Path) -> list[Path]:
    """Write everything a reader wants of a benchmark, finished or not, and return the files."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    analyses = sensitivity(results)
    pictures = {stem: drawn(figure) for stem, figure in figures(results, analyses).items()}
    matrices = {stem: drawn(figure) for stem, figure in matrix_figures(results).items()}
    texts = texts_of(results, analyses)
    texts["results.html"] = results_page(results, analyses, pictures, matrices)
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


def sensitivity_markdown(analyses: Sensitivity, about: Mapping[str, Any]) -> str:
    """The three analyses as text; `about` is that of the results."""
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
    if note := same_images_note(about, analyses.initial.points):
        lines += ["", note]
    return "\n".join(lines) + "\n"


def same_images_note(about: Mapping[str, Any], names: Iterable[str]) -> str:
    """A sentence on those of the named data sets that share their images; empty if none do."""
    named = set(names)
    groups = [[one for one in group if one in named] for group in about.get("same_images", ())]
    return " ".join(
        f"{listed(map(plain, group))} are the same images with different networks, and count as "
        f"{len(group)} data sets: their points are not independent."
        for group in groups
        if len(group) > 1
    )


def texts_of(results: Results, analyses: Sensitivity) -> dict[str, str]:
    """File name -> text of every table."""
    tables = all_tables(results)
    found = {
        **_formats("stage1", tables["stage1"], stage1_csv(results.stage1)),
        **_formats("stage2", tables["stage2"], stage2_csv(results.stage2)),
        "sensitivity.md": sensitivity_markdown(analyses, results.about),
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
