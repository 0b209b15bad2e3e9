"""A map of all samples, with similar ones side by side.

Samples are placed by their features; where the run has none, by their predicted probabilities.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from uqled.errors import InputError, UqledError
from uqled.features.map_layout import (
    COMPARED_DIMENSIONS,
    lay_out_map,
    plan_map,
    reduce_dimensions,
)
from uqled.progress import Progress, Stage, describe_seconds, note_activity
from uqled.report.similar_samples import SimilarSamples
from uqled.storage.arrays.numpy_files import read_array
from uqled.storage.atomic import write_array
from uqled.storage.run import Predictions

MAP_FILE = "map.npy"
_MAX_CORNERS = 200  # of a lasso
_SCALE = 1000  # a lasso's corners are whole thousandths

Basis = Literal["features", "probabilities"]


class SampleMap:
    """The positions of a run's samples, computed from the first `describe` on."""

    def __init__(self, predictions: Predictions, similar: SimilarSamples) -> None:
        self._predictions = predictions
        self._similar = similar
        self._lock = threading.Lock()
        self._places: NDArray[np.float32] | None = None
        self._version = 0  # 1 a first draft, 2 the map
        self._problem: str | None = None
        self._plan = plan_map(len(predictions))
        self._stage: Stage | None = None
        self._thread: threading.Thread | None = None
        self.find_inside = lru_cache(4)(self._find_inside)

    @property
    def basis(self) -> Basis:
        return "probabilities" if self._similar.vectors is None else "features"

    def describe(self) -> dict[str, Any]:
        """The progress of the map; starts computing it if necessary."""
        with self._lock:
            if self._thread is None:
                self._stage = Stage("map", self._plan.seconds)
                self._thread = threading.Thread(target=self._compute, daemon=True)
                self._thread.start()
        stage = self._stage
        assert stage is not None
        seconds_left = stage.seconds_left
        if seconds_left is None:  # until the speed is known, assume an ordinary core
            expected = self._plan.seconds - stage.elapsed_seconds
            seconds_left = expected if expected > 0 else None  # a busy computer: nobody knows
        return {
            "version": self._version,
            "ready": self._version == 2,
            "basis": self.basis,
            "samples": len(self._predictions),
            "laid_out": self._plan.n_laid_out,
            "is_placing": stage.done >= self._plan.layout_seconds,
            "share": min(1.0, stage.done / max(self._plan.seconds, 1e-9)),
            "seconds": round(stage.elapsed_seconds, 1),
            "seconds_left": None if seconds_left is None else round(seconds_left, 1),
            "problem": self._problem,
        }

    def get_places(self) -> NDArray[np.float32]:
        """[N,2] from -1 to 1, the first draft while the map is computed."""
        if self._places is None:
            raise InputError("map", "has not been computed yet", "Request api/map first")
        return self._places

    def wait(self) -> None:
        """Until it is computed."""
        self.describe()
        assert self._thread is not None
        self._thread.join()

    def _compute(self) -> None:
        assert self._stage is not None
        stage = self._stage
        try:
            places = self._read()
            if places is None:
                with Progress().stage("Computing the map", stage.total) as show:

                    def advance(seconds: float) -> None:
                        stage.advance(seconds)
                        show(seconds)

                    plan = self._plan  # until the speed is known, assume an ordinary core
                    note_activity(
                        f"laying out {plan.n_laid_out:,} samples, about "
                        f"{describe_seconds(plan.seconds)} in all"
                    )
                    vectors = self._choose_vectors()
                    self._publish(lay_out_map(vectors, quick=True), 1)
                    places = lay_out_map(vectors, advance=advance)
                    write_array(self._predictions.path / MAP_FILE, places)
            self._publish(places, 2)
        except (UqledError, OSError, MemoryError, ValueError) as error:
            self._problem = str(error)

    def _publish(self, places: NDArray[np.float32], version: int) -> None:
        self.find_inside.cache_clear()
        self._places, self._version = places, version

    def _read(self) -> NDArray[np.float32] | None:
        """The map stored with the run; None if there is none that fits."""
        path = self._predictions.path / MAP_FILE
        if not path.is_file():
            return None
        try:
            places: NDArray[np.float32] = read_array(path, "Remove it: it is computed again")
        except UqledError:
            return None
        fits = places.shape == (len(self._predictions), 2) and places.dtype == np.float32
        return places if fits and np.isfinite(places).all() else None

    def _choose_vectors(self) -> NDArray[np.float32]:
        vectors = self._similar.vectors
        if vectors is not None:
            return vectors
        # Square roots: equal distances then are equal changes of the probabilities (Hellinger).
        return reduce_dimensions(self._predictions.pred_probs, COMPARED_DIMENSIONS, root=True)

    def _find_inside(self, text: str) -> NDArray[np.bool_]:
        """[N] the samples inside a lasso, whose corners are `x,y,x,y,...` in thousandths."""
        x, y = read_lasso(text).T
        places = self.get_places()
        px, py = places[:, 0], places[:, 1]
        inside = np.zeros(len(places), np.bool_)
        for x1, y1, x2, y2 in zip(x, y, np.roll(x, -1), np.roll(y, -1), strict=True):
            if y1 != y2:  # one more border is crossed on the way to the right
                crosses = (py < y1) != (py < y2)
                inside ^= crosses & (px < x1 + (py - y1) * ((x2 - x1) / (y2 - y1)))
        return inside


def read_lasso(text: str) -> NDArray[np.float64]:
    """[n,2] the corners of a lasso."""
    parts = text.split(",")
    is_whole = all(part.removeprefix("-").isdecimal() and len(part) < 7 for part in parts)
    if (
        not text.isascii()
        or not is_whole
        or len(parts) % 2
        or not 6 <= len(parts) <= 2 * _MAX_CORNERS
    ):
        raise InputError(
            "lasso", f"is {text!r:.40}", f"Pass 3 to {_MAX_CORNERS} corners in thousandths"
        )
    return np.array(parts, np.float64).reshape(-1, 2) / _SCALE
