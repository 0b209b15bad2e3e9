"""Checks of a suite: everything that would fail later is refused when it is read.

A name becomes a folder, a title goes into figures and tables, an option goes to a training that
begins hours later.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from uqled import arrays
from uqled.arrays import show_value
from uqled.bench.method_flags import check_methods
from uqled.errors import InputError, MissingInputError
from uqled.export.file_names import sanitize_name
from uqled.limits import MAX_COUNT, check_limit
from uqled.noise.kinds import KINDS
from uqled.predict.learners import LEARNERS
from uqled.predict.learners.estimator import CLASSIFIERS
from uqled.predict.training_options import resolve_training
from uqled.predict.uncertainty import list_uncertainty_sources

if TYPE_CHECKING:
    from uqled.bench.suite import Stage2, Suite, SuiteData

_LONGEST_NAME = 200  # characters of a suite's name or a title
_OF_CELLS = ("rate", "pred_probs", "model_labels")  # noise options that the cell supplies


def check_suite(suite: Suite, baseline: str) -> None:
    """Refuse a suite that could not be computed, or whose results could not be shown."""
    _check_names(suite)
    for data in suite.data:
        _check_data(data)
    _check_matrix(suite)
    _check_noise(suite.noise)
    if baseline not in suite.methods:
        raise InputError("methods", f"lack {baseline!r}", "Add it: the others are compared with it")
    if suite.clean_first is not None:
        check_methods((suite.clean_first,))
    if suite.stage2 is not None:
        _check_stage2(suite, suite.stage2)


def is_line(text: Any) -> bool:
    """Whether this is one line of text: no control character, line break or lone surrogate."""
    return isinstance(text, str) and not any(
        unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in "\ufffe\uffff" for c in text
    )


def _check_names(suite: Suite) -> None:
    name = suite.name
    if not is_line(name) or name in ("", ".", "..") or set(name) & set("/\\"):
        raise InputError("name", f"is {show_value(name)}", "Give the suite a name of one line")
    if len(name) > _LONGEST_NAME:
        raise InputError("name", f"has {len(name)} characters", f"Use at most {_LONGEST_NAME}")
    if not suite.data:
        raise InputError("data", "has no entry", "Name at least one data set under [[data]]")
    names = Counter(data.name for data in suite.data)
    for name, times in names.items():
        if times > 1 or not is_line(name) or sanitize_name(name) != name or " " in name:
            raise InputError(
                "name",
                f"{show_value(name)} is used twice, or is no folder's name",
                "Choose another, such as mnist-2",
            )
    for title, times in Counter(data.display_name for data in suite.data).items():
        if times > 1:
            raise InputError(
                "title", f"{title!r} is used for {times} data sets", "Give each its own"
            )
    for key, lines in (("about", suite.about), *_list_paragraphs(suite)):
        if not all(is_line(line.replace("\t", " ")) for line in lines.splitlines()):
            raise InputError(key, f"is {show_value(lines)}", "Leave control characters out")


def _list_paragraphs(suite: Suite) -> list[tuple[str, str]]:
    return [(k, getattr(data, k)) for data in suite.data for k in ("reduced", "contaminated")]


def _check_data(data: SuiteData) -> None:
    for key in ("title", "place", "test_place", "split", "test_split", "label", "inputs"):
        text = getattr(data, key)
        if text is not None and not is_line(text):
            raise InputError(key, f"is {show_value(text)}", "Write one line of text")
    if len(data.title) > _LONGEST_NAME:
        raise InputError(
            "title", f"has {len(data.title)} characters", f"Use at most {_LONGEST_NAME}"
        )
    for key in ("limit", "test_limit", "retraining_limit"):
        if getattr(data, key) is not None:
            arrays.check_whole_number(getattr(data, key), key, low=2, high=MAX_COUNT)
    if data.image_size is not None:
        arrays.check_whole_number(data.image_size, "image_size", low=1, high=MAX_COUNT)
        check_limit("image_pixels", data.image_size**2, f"image_size {data.image_size}")
    if (
        data.test_share is not None
        and not 0 < arrays.check_fraction(data.test_share, "test_share") < 1
    ):
        raise InputError(
            "test_share", f"is {data.test_share}", "Pass a share between 0 and 1, such as 0.2"
        )
    for key, low in (("passes", 1), ("folds", 2)):
        if getattr(data, key) is not None:
            arrays.check_whole_number(getattr(data, key), key, low=low, high=MAX_COUNT)
    if data.dropout is not None and not 0 < arrays.check_fraction(data.dropout, "dropout") < 1:
        raise InputError(
            "dropout", f"is {data.dropout}", "Pass a rate between 0 and 1, such as 0.5"
        )
    if data.dropout is not None and data.model in CLASSIFIERS:
        raise InputError(
            "dropout",
            f"is given, but does not apply to {data.model!r}",
            "It is an option for networks",
        )
    _check_model(data.model, dict(data.training))


def _check_model(model: Any, options: dict[str, Any]) -> None:
    """Refuse an unknown model, and options of training that it does not have."""
    uncertainty = options.pop("uncertainty", "auto")
    sources = list_uncertainty_sources()
    if uncertainty not in sources:
        raise InputError(
            "uncertainty", f"is {show_value(uncertainty)}", f"Choose one of {', '.join(sources)}"
        )
    names = LEARNERS.names()
    if not isinstance(model, str) or (model not in names and ":" not in model):
        raise InputError(
            "model",
            f"is {show_value(model)}",
            f"Choose one of {', '.join(names)}, or name a function of your own as module:function",
        )
    if model in CLASSIFIERS and options:
        raise InputError(
            next(iter(options)),
            f"is given, but does not apply to {model!r}",
            "It is an option for networks",
        )
    resolve_training(options)


def _check_matrix(suite: Suite) -> None:
    for rate in suite.rates:
        arrays.check_fraction(rate, "rates")
    for seed in suite.seeds:
        arrays.check_whole_number(seed, "seeds", low=0, high=arrays.LARGEST_SEED)
    check_methods(suite.methods)
    if not suite.rates or not suite.seeds:
        raise InputError("rates", "or seeds are empty", "Give at least one of each")
    entries: dict[str, list[Any]] = {
        "rates": [f"{rate:g}" for rate in suite.rates],  # as their cells' folders are called
        "seeds": list(suite.seeds),
        "methods": list(suite.methods),
    }
    for key, values in entries.items():
        if len(set(values)) < len(values):
            raise InputError(key, f"are {show_value(values)}", "Name each once")
    arrays.check_whole_number(suite.folds, "folds", low=2, high=MAX_COUNT)
    arrays.check_whole_number(suite.passes, "passes", low=1, high=MAX_COUNT)
    arrays.check_whole_number(suite.pilot_keeps, "pilot_keeps", low=1, high=MAX_COUNT)
    folds = max(suite.count_folds(data.name) for data in suite.data)
    per_rate = folds + 2 * len(suite.methods) + 3
    per_seed = folds + 3 + len(suite.rates) * per_rate
    check_limit("suite_cells", len(suite.data) * len(suite.seeds) * per_seed, "the suite")


def _check_noise(noise: Mapping[str, Any]) -> None:
    kind = noise.get("kind")
    if not isinstance(kind, str) or kind not in KINDS or kind == "matrix":
        kind_names = ", ".join(name for name in KINDS if name != "matrix")
        raise InputError("noise", f"has the kind {show_value(kind)}", f"Choose one of {kind_names}")
    needed_options, used_options = KINDS[kind]
    free_options = [name for name in (*needed_options, *used_options) if name not in _OF_CELLS]
    for name in noise:
        if name != "kind" and name not in free_options:
            raise InputError(
                name, f"is not an option for noise of the kind {kind!r} in a suite", "Leave it out"
            )
    for name in free_options:
        if name not in noise:
            raise MissingInputError(name, "is missing", f"Noise of the kind {kind!r} needs it")
        arrays.check_fraction(noise[name], name)


def _check_stage2(suite: Suite, stage2: Stage2) -> None:
    for method in stage2.methods or ():
        if method not in suite.methods:
            raise InputError(
                "stage2.methods", f"have {show_value(method)}", "Name it in `methods` too"
            )
    rates = {str(rate) for rate in suite.rates}
    for rate, seeds in stage2.seeds.items():
        if rate not in rates or not all(seed in suite.seeds for seed in seeds):
            raise InputError(
                "stage2.seeds",
                f"have {show_value(rate)}: {show_value(list(seeds))}",
                "Name rates and seeds of the suite",
            )
    if not all(rate in suite.rates for rate in stage2.relabel):
        raise InputError(
            "stage2.relabel", f"is {show_value(list(stage2.relabel))}", "Name rates of the suite"
        )
    if not all(seed in suite.seeds for seed in stage2.relabel_seeds or ()):
        raise InputError(
            "stage2.relabel_seeds", f"is {show_value(stage2.relabel_seeds)}", "Name its seeds"
        )
