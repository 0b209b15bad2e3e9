"""The noise of a benchmark as a table: class similarities, intended flips and actual flips."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from uqled.bench.results.collection import Results
from uqled.bench.results.formatting import format_percent, format_rate
from uqled.bench.results.tables import Block, ResultTable, Row, TableCell

_MOST_PAIRS = 40  # of a data set that a page shows; the CSV file has all
_BY_RATE = ("intended", "realised")
_COLUMNS = ("dataset", "rate", "true", "given", "similarity", "flip", "intended", "realised")


def list_flips(results: Results) -> pd.DataFrame:
    """A row per data set, rate and pair of classes that noise was to mix up, or did.

    `similarity`: mean probability of the given class over samples of the true one; `flip`: where a
    wrong label of the true class goes; `intended`, `realised`: shares of the true class. NaN where
    a cell does not tell.
    """
    rows = []
    for name, by_rate in results.matrices.items():
        scores = results.similarity.get(name)
        for rate, matrix in sorted(by_rate.items()):
            probabilities = matrix.probabilities
            realised_matrix = results.realised.get(name, {}).get(rate)
            realised_rates = np.full(probabilities.shape, math.nan)
            if realised_matrix is not None:
                realised_rates = realised_matrix.probabilities
            error_rates = 1 - probabilities.diagonal()
            for true, label in np.argwhere((probabilities > 0) | (realised_rates > 0)):
                if true == label:
                    continue
                share = probabilities[true, label]
                score = math.nan if scores is None else scores[true, label]
                flip = share / error_rates[true] if error_rates[true] > 0 else 0.0
                pair = matrix.classes[true], matrix.classes[label]
                rows.append((name, rate, *pair, score, flip, share, realised_rates[true, label]))
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def build_noise_table(results: Results) -> ResultTable:
    """A row per pair of classes, those that are mixed up most first; a block per data set.

    What no cell tells has no column.
    """
    flips = list_flips(results)
    rates = sorted(flips["rate"].unique())
    filled_columns = [column for column in _COLUMNS[4:] if flips[column].notna().any()]
    blocks = []
    for name, flips_of_set in flips.groupby("dataset", sort=False):
        pairs = flips_of_set.groupby(["true", "given"], sort=False)
        order = pairs["intended"].max().sort_values(ascending=False, kind="stable").index
        rows = tuple(
            Row(
                " \N{RIGHTWARDS ARROW} ".join(pair),
                _build_cells(pairs.get_group(pair), filled_columns, rates),
            )
            for pair in order[:_MOST_PAIRS]
        )
        note = f"{len(rows)} of {len(order)} pairs; all are in noise.csv"
        blocks.append(Block(str(name), note if len(order) > len(rows) else "", rows))
    heads = tuple(map(format_rate, rates))
    return ResultTable(
        "Noise: which classes are mixed up",
        "Similarity: mean probability of the other class, by the network trained on clean labels. "
        "Flip: where a wrong label of the class goes. Intended and realised: the share of the "
        "class that was to get this wrong label at each noise rate, and that did. All in per "
        "cent, of the first seed.",
        (
            ("Pair", tuple(column for column in filled_columns if column not in _BY_RATE)),
            *((column.capitalize(), heads) for column in filled_columns if column in _BY_RATE),
        ),
        tuple(blocks),
        "noise",
        corner="true class, given as",
    )


def _build_cells(
    pair: pd.DataFrame, columns: list[str], rates: list[float]
) -> tuple[TableCell, ...]:
    """One pair's figures; those that do not depend on the rate once."""
    pair_rates = pair["rate"].tolist()
    by_column = {
        column: dict(zip(pair_rates, pair[column].tolist(), strict=True)) for column in columns
    }
    values = [
        by_column[column].get(rate, math.nan)
        for column in columns
        for rate in (rates if column in _BY_RATE else pair_rates[:1])
    ]
    return tuple(TableCell(format_percent(value)) for value in values)


def format_noise_csv(results: Results) -> str:
    """All pairs, shares with six decimals and empty where a cell does not tell."""
    return list_flips(results).to_csv(index=False, float_format="%.6g", lineterminator="\n")
