"""Pictures, drawn without pyplot: no global state, no window, the same on a server."""

from __future__ import annotations

import io
import math
import os
import unicodedata
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from uqled.errors import FileError, InputError
from uqled.noise.transition import TransitionMatrix
from uqled.storage.atomic import replace_file
from uqled.storage.reading import name_file

_MAX_NUMBERED = 20  # classes up to which a number fits in every cell
_MAX_NAMED = 110  # classes up to which every name fits beside its row
_LONGEST_NAME = 24
_NORM = PowerNorm(0.5, vmin=0, vmax=1)  # a flip of 1 % is visible beside a diagonal of 80 %


class InlineFigure(Figure):
    """A figure that a notebook shows, where nobody has loaded pyplot."""

    def _repr_png_(self) -> bytes:
        picture = io.BytesIO()
        with _ignore_missing_glyphs():
            self.savefig(picture, format="png")
        return picture.getvalue()


def transition_heat_map(matrices: Mapping[str, TransitionMatrix]) -> Figure:
    """Matrices side by side under their titles: true classes down, given classes across.

    Usually {"intended": matrix, "realised": realised_matrix(...)}. Numbers are per cent of the
    true class.
    """
    classes = [matrix.classes for matrix in matrices.values()]
    if not classes or any(names != classes[0] for names in classes):
        raise InputError(
            "matrices",
            f"are {len(classes)} ({', '.join(matrices)}) that differ in classes",
            "Pass at least one; measure the other with realised_matrix(..., intended.classes)",
        )
    side = min(max(3.5, 0.5 * len(classes[0])), 15.0)  # inches of one map
    with mpl.rc_context({"font.size": max(10.0, side), "text.usetex": False}):
        size = ((side + 1.2) * len(classes) + 1.6, side + 2)
        figure = InlineFigure(figsize=size, dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        panels = list(figure.subplots(1, len(classes), squeeze=False)[0])
        for axes, (title, matrix) in zip(panels, matrices.items(), strict=True):
            image = _draw_matrix(axes, matrix, title, side)
        bar = figure.colorbar(image, ax=panels, shrink=0.9, pad=0.02)
        bar.set_label("share of the true class")
        ticks = [0, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1]
        bar.set_ticks(ticks, labels=[f"{tick:.0%}" for tick in ticks])
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a picture (`.png`, `.svg` or `.pdf`), whole or not at all."""
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg", "pdf"):
        raise FileError(
            name_file(path), f"has the ending {path.suffix!r}", "Use one of .png, .svg, .pdf"
        )
    with replace_file(path) as part, _ignore_missing_glyphs():
        figure.savefig(part, format=kind)


@contextmanager
def _ignore_missing_glyphs() -> Iterator[None]:
    """Names in a script that the font lacks are drawn as boxes; one warning each is too much."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def _draw_matrix(axes: Axes, matrix: TransitionMatrix, title: str, side: float) -> AxesImage:
    K = len(matrix.classes)
    image = axes.imshow(matrix.probabilities, cmap="Blues", norm=_NORM, interpolation="nearest")
    axes.set_title(escape_figure_text(title))
    axes.set_xlabel("given class")
    axes.set_ylabel("true class")
    class_numbers = range(0, K, math.ceil(K / _MAX_NAMED))
    names = [_shorten_name(matrix.classes[k]) for k in class_numbers]
    size = min(
        10.0, 0.8 * 72 * side / len(class_numbers)
    )  # points: a name is no taller than its row
    upright = max(map(len, names)) * size * 0.6 > 72 * side / len(class_numbers)
    axes.set_xticks(class_numbers, labels=names, fontsize=size, rotation=90 if upright else 0)
    axes.set_yticks(class_numbers, labels=names, fontsize=size)
    axes.tick_params(length=2)
    if K <= _MAX_NUMBERED:
        _write_numbers(axes, matrix)
    return image


def _write_numbers(axes: Axes, matrix: TransitionMatrix) -> None:
    """Per cent in every cell that is not zero."""
    for i, row in enumerate(matrix.probabilities.tolist()):
        for j, share in enumerate(row):
            if share > 0:
                colour = "white" if share > 0.3 else "black"
                axes.text(
                    j, i, f"{100 * share:.1f}", ha="center", va="center", color=colour, fontsize=9
                )


def _shorten_name(name: str) -> str:
    """A name for an axis."""
    return escape_figure_text(
        name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    )


def escape_figure_text(text: str) -> str:
    r"""The text, escaped so that a figure shows it as it is.

    `$` would start a formula. Control characters and halves of characters have no glyph, and are
    not allowed in an SVG.

    >>> escape_figure_text("5 $\na day")
    '5 \\$ a day'
    """
    return "".join(map(_make_drawable, text)).replace("$", r"\$")


def _make_drawable(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Zl", "Zp") and character.isspace():
        return " "
    has_no_glyph = unicodedata.category(character) in ("Cc", "Cs") or character in "\ufffe\uffff"
    return "\N{REPLACEMENT CHARACTER}" if has_no_glyph else character
