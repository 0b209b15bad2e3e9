"""The page and the picture of `batch_norm.py`, made from its committed cells."""

from __future__ import annotations

from pathlib import Path

CELLS = Path(__file__).parent / "results" / "batch-norm"


def write_page() -> None:
    """Write the page."""
