"""Tables to export from, for tests of what may go wrong with them."""

from __future__ import annotations

import numpy as np
import pandas as pd

KINDS = [
    ("csv", "out.csv"),
    ("parquet", "out.parquet"),
    ("huggingface", "out"),
    ("label-studio", "out"),
]


def digits(N=30):
    """Rows whose classes are d3, d5 and d8."""
    return pd.DataFrame(
        {"x": np.arange(float(N)), "y": 1.5, "label": ["d3", "d5", "d8"] * (N // 3)}
    )


def save(frame, path):
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(
        path, index=False
    )
