"""docs/results.md: what the benchmark found, beside the paper, from stored cells.

    python benchmarks/results_page.py                  writes docs/results.md
    python benchmarks/results_page.py --take FOLDER    takes over the cells finished there first

Every number and every verdict is computed from `benchmarks/results/laptop/cells`, from
`benchmarks/results/published-predictions.json` and from the paper's printed tables, so that the
same cells give the same page.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from paper.page_text import SUITE
from paper.results_page import CELLS, PUBLISHED_RESULTS, build_page, format_comparison
from uqled.bench.cells import Cells
from uqled.bench.results.collection import collect_results
from uqled.bench.runner import Benchmark, write_tables
from uqled.bench.suite import read_suite
from uqled.storage.atomic import replace_file

PAGE = Path(__file__).parents[1] / "docs" / "results.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--take", type=Path, help="a benchmark's folder: its cells come first")
    parser.add_argument("--cells", type=Path, default=CELLS)
    parser.add_argument("--published", type=Path, default=PUBLISHED_RESULTS)
    parser.add_argument("--out", type=Path, default=PAGE)
    arguments = parser.parse_args()
    if arguments.take is not None:
        # Later cells need the folds; a reader does not, and they are large.
        Cells(arguments.cells).merge(arguments.take, arrays_of=("detection",))
    write_tables(Benchmark(read_suite(SUITE), Path(), arguments.cells))
    results = collect_results(read_suite(SUITE), Cells(arguments.cells))
    files = {arguments.cells / name: text for name, text in format_comparison(results).items()}
    for path, text in {
        **files,
        arguments.out: build_page(arguments.cells, arguments.published),
    }.items():
        with replace_file(path) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
