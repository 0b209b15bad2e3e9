"""Both readings of the entropy threshold, and which of them looks like the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from paper.page_text import format_signed, format_table
from paper.paper_comparison import find_paper_dataset
from paper.printed_tables import read_paper_results
from uqled.bench.results.collection import Results
from uqled.bench.results.formatting import (
    DASH,
    format_rate,
)
from uqled.bench.results.statistics import (
    Rate,
    SeedSample,
    group_samples,
    is_clear,
    list_evidence,
    subtract_samples,
)
from uqled.bench.results.table_formats import (
    escape_markdown,
)

_READINGS = {"candidate": "cl-mcd-e", "given": "cl-mcd-e-given"}
_MEASURES = ("f1", "precision", "recall")


def build_entropy(results: Results) -> list[str]:
    """Both readings of the threshold, and which of them looks like the paper, rate by rate."""
    rows: list[list[str]] = []
    paper_rows = read_paper_results().stage1
    clearer, signs, trends = Counter[str](), Counter[str](), Counter[str]()
    for name in list_evidence(results):
        clearer.update(_compare_readings(results, name))
        gaps = {
            reading: _compute_entropy_gaps(results.stage1, name, method)
            for reading, method in _READINGS.items()
        }
        if not all(gaps.values()):
            continue
        other = find_paper_dataset(name)
        paper = _compute_entropy_gaps(paper_rows, other, "cl-mcd-e") if other else {}
        for rate in gaps["candidate"]:
            cells = [
                format_signed(by[rate][measure].mean) if rate in by else DASH
                for measure in _MEASURES
                for by in (paper, *gaps.values())
            ]
            closer = DASH
            if rate in paper and rate in gaps["given"]:
                signs["paper"] += 1
                signs.update(r for r in gaps if _has_sign(gaps[r][rate], paper[rate]))
                distances = {r: _measure_distance(gaps[r][rate], paper[rate]) for r in gaps}
                closer = min(distances, key=lambda reading: distances[reading])
            rows.append([escape_markdown(name), format_rate(rate), *cells, closer])
        if len(paper) > 1:
            trends["paper"] += 1
            trends.update(r for r in gaps if _count_rises(gaps[r]) == _count_rises(paper))
    if not rows:
        return []
    heads = [
        f"{m}, {w}" for m in ("F1", "precision", "recall") for w in ("paper", "cand.", "given")
    ]
    total = sum(clearer.values())
    return [
        "## Both readings of the entropy threshold",
        "The equation of CL-MCD-E can be read in two ways: a sample counts for a class if its "
        "entropy is below the mean of that class (candidate, uqled's default) or below the mean of "
        "the class that it was given (given, the equation taken literally). The candidate reading "
        f"has the clearly higher F1 in {clearer['candidate']} of {total} cells (data set, rate), "
        f"the given reading in {clearer['given']}; {clearer['open']} are within the spread.",
        "Which one did the paper compute? Recall is the best evidence, because the threshold "
        "decides "
        "how many samples are counted. The table has CL-MCD-E minus CL-MCD in points, rate by "
        f"rate. The sign of the change in recall is the paper's in {signs['candidate']} of "
        f"{signs['paper']} cells with "
        f"the candidate reading and in {signs['given']} with the given reading; from the lowest "
        f"to the highest rate it moves in the paper's direction for {trends['candidate']} and "
        f"{trends['given']} of {trends['paper']} data sets. The last column names the reading "
        "closer to the paper in precision and recall together. All of this is inference from other "
        "networks.",
        format_table(["", "rate", *heads, "closer to the paper"], rows, "l"),
    ]


def _compare_readings(results: Results, name: str) -> Iterator[str]:
    """Of each rate, the reading with the clearly higher F1, or `open`."""
    for column in group_samples(results.stage1, name, "f1").values():
        if set(_READINGS.values()) <= set(column):
            gap = subtract_samples(column["cl-mcd-e"], column["cl-mcd-e-given"])
            side = "candidate" if gap.mean > 0 else "given"
            yield side if is_clear(gap) else "open"


def _compute_entropy_gaps(frame: Any, name: str, method: str) -> dict[Rate, dict[str, SeedSample]]:
    """Rate -> measure -> method minus CL-MCD."""
    columns = {measure: group_samples(frame, name, measure) for measure in _MEASURES}
    return {
        rate: {
            m: subtract_samples(by[rate][method], by[rate]["cl-mcd"]) for m, by in columns.items()
        }
        for rate, column in columns["f1"].items()
        if {method, "cl-mcd"} <= set(column)
    }


def _has_sign(gap: dict[str, SeedSample], paper: dict[str, SeedSample]) -> bool:
    """If recall changes in the paper's direction."""
    return gap["recall"].mean * paper["recall"].mean > 0


def _measure_distance(gap: dict[str, SeedSample], paper: dict[str, SeedSample]) -> float:
    return sum(abs(gap[m].mean - paper[m].mean) for m in ("precision", "recall"))


def _count_rises(gaps: dict[Rate, dict[str, SeedSample]]) -> bool:
    """If the change in recall grows from the lowest rate to the highest."""
    changes = [by["recall"].mean for by in gaps.values()]
    return changes[-1] > changes[0]
