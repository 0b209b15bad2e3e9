"""A suite: the data, networks, noise and methods that a benchmark compares, read from a TOML
file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from uqled.arrays import show_value
from uqled.bench.method_flags import GIVEN_ENDING
from uqled.bench.suite_checks import check_suite
from uqled.bench.sweeps import expand_sweeps
from uqled.errors import FileError, InputError
from uqled.storage.reading import first_line, read_text

#: The six algorithms of the UQ-LED paper in its order, the baseline first.
PAPER_METHODS = ("cl-pbnr", "cl-mcd", "cl-mcd-e", "cl-mcd-ens", "alg-ens-2", "alg-ens-3")
BASELINE = PAPER_METHODS[0]
DEFAULT_METHODS = (*PAPER_METHODS, f"cl-mcd-e{GIVEN_ENDING}", "argmax")


#: Keys of a suite that name what is computed: `module:function` among them is code.
_NAMES_OF_CODE = ("methods", "clean_first", "model")


@dataclass(frozen=True)
class SuiteData:
    """One data set of a suite, and the network that is trained on it."""

    name: str
    """Short, for folders: mnist."""
    place: str
    """The argument of `uqled.data.load`, relative to the benchmark's data folder."""
    title: str = ""
    """As tables show it; the name if not given."""
    test_place: str | None = None
    """Where the test samples are, if elsewhere."""
    split: str | None = None
    test_split: str | None = None
    test_share: float | None = None
    """For data without a test split: the share of its samples that becomes one."""
    limit: int | None = None
    """Use only this many training samples."""
    test_limit: int | None = None
    retraining_limit: int | None = None
    """Use only this many training samples where stage 2 retrains."""
    image_size: int | None = None
    label: str | None = None
    inputs: str | None = None
    model: str = "auto"
    training: Mapping[str, Any] = field(default_factory=dict)
    """Options of the network's training: epochs, batch_size, lr, preset, ..."""
    passes: int | None = None
    """Stochastic passes; the suite's unless given."""
    folds: int | None = None
    """Of cross-validation; the suite's unless given."""
    dropout: float | None = None
    """Rate of every dropout layer; the network's own unless given."""
    reduced: str = ""
    """A sentence on what was made smaller than in the paper."""
    contaminated: str = ""
    """Why results on this data set are not clean evidence, if they are not; shown beside them."""

    @property
    def display_name(self) -> str:
        return self.title or self.name


@dataclass(frozen=True)
class Stage2:
    """Which trainings compare the methods' cleaned data."""

    methods: tuple[str, ...] | None = None
    """All of the suite's unless given."""
    seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Rate, as text -> seeds; a rate that is not named has all the suite's seeds."""
    relabel: tuple[float, ...] = ()
    """Rates at which flagged samples are also relabelled rather than removed."""
    relabel_seeds: tuple[int, ...] | None = None
    """Seeds of that; the rate's own unless given."""


@dataclass(frozen=True)
class Suite:
    """The whole matrix of a benchmark."""

    name: str
    data: tuple[SuiteData, ...]
    about: str = ""
    rates: tuple[float, ...] = (0.05, 0.1, 0.2)
    seeds: tuple[int, ...] = (0, 1, 2)
    noise: Mapping[str, Any] = field(default_factory=lambda: {"kind": "similarity"})
    """The kind, and its options but the rate."""
    folds: int = 4
    passes: int = 5
    methods: tuple[str, ...] = DEFAULT_METHODS
    """Of stage 1: names, or `module:function` of your own."""
    pilot: bool = False
    """Whether a pilot on the test sets decides which methods stage 2 compares."""
    pilot_keeps: int = 1
    """At least this many methods enter stage 2, the best of the pilot first; with 1 it may be the
    baseline alone."""
    clean_first: str | None = None
    """A method whose flags are removed before noise is added."""
    stage2: Stage2 | None = field(default_factory=Stage2)

    def __post_init__(self) -> None:
        check_suite(self, BASELINE)

    def get_data(self, name: str) -> SuiteData:
        return next(data for data in self.data if data.name == name)

    def count_passes(self, name: str) -> int:
        """Stochastic passes of a data set."""
        return self.get_data(name).passes or self.passes

    def count_folds(self, name: str) -> int:
        """Folds of a data set."""
        return self.get_data(name).folds or self.folds


def list_builtin_suites() -> list[str]:
    """The suites that ship with the package."""
    names = (file.name for file in (files("uqled.bench") / "suites").iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def read_suite(name: str, *, allow_code: bool = False) -> Suite:
    """A suite by its name, or of a user's own TOML file.

    A file may come from a stranger: only with `allow_code` may it name functions to run.
    """
    if name.endswith(".toml"):
        text = read_text(name)
    elif name in list_builtin_suites():
        text = (files("uqled.bench") / "suites" / f"{name}.toml").read_text(encoding="utf-8")
    else:
        raise InputError(
            "suite",
            f"is {name!r}",
            f"Choose one of {', '.join(list_builtin_suites())}, or name a .toml file",
        )
    try:
        content = tomllib.loads(text)
    except Exception as error:  # its own error, recursion, integers of too many digits
        raise FileError(
            f"suite {name!r}", f"is not valid TOML ({first_line(error)})", "Correct that line"
        ) from error
    content.setdefault("name", Path(name).stem)
    if not allow_code:
        _refuse_code(content, name)
    try:
        return _build_suite(content)
    except InputError as error:
        raise type(error)(f"suite {name!r}: {error.argument}", error.problem, error.fix) from error


def _refuse_code(content: Any, name: str) -> None:
    """Refuse `module:function`, wherever a suite may name one."""
    for key, value in content.items() if isinstance(content, dict) else ():
        for one in value if isinstance(value, list) else [value]:
            if key in _NAMES_OF_CODE and isinstance(one, str) and ":" in one:
                raise InputError(
                    f"suite {name!r}: {key}",
                    f"names code to run, {one!r}",
                    "If you trust it, pass --allow-code (in Python, allow_code=True)",
                )
            _refuse_code(one, name)


def _build_suite(content: dict[str, Any]) -> Suite:
    options = dict(content)
    entries, sweep = options.pop("data", []), options.pop("sweep", {})
    _check_type("data", entries, list, "write [[data]] before each data set")
    _check_type("sweep", sweep, dict, "write [sweep], and values as passes = [2, 10]")
    entries = expand_sweeps(entries, sweep)
    options["data"] = tuple(_build_dataclass(SuiteData, entry, "data") for entry in entries)
    stage2 = options.pop("stage2", {})
    if stage2 is not False:
        _check_type("stage2", stage2, dict, "write a table, or stage2 = false")
        stage2 = dict(stage2)
        seeds = stage2.get("seeds", {})
        _check_type("stage2.seeds", seeds, dict, 'write { "0.1" = [0, 1] }')
        for rate, rate_seeds in seeds.items():
            _check_type(f"stage2.seeds of {rate}", rate_seeds, list, 'write { "0.1" = [0, 1] }')
        stage2["seeds"] = {k: tuple(v) for k, v in seeds.items()}
        stage2 = _build_dataclass(Stage2, stage2, "stage2")
    suite: Suite = _build_dataclass(Suite, options | {"stage2": stage2 or None}, "suite")
    return suite


def _build_dataclass(kind: Any, options: Mapping[str, Any], where: str) -> Any:
    """Make a dataclass from a file's table; an unknown key is refused."""
    _check_type(where, options, dict, "write its options as key = value")
    fields_by_name = {one.name: one for one in fields(kind)}
    for key in options:
        if key not in fields_by_name:
            raise InputError(
                key, f"is not an option of {where}", f"Choose among {', '.join(fields_by_name)}"
            )
    for name, one in fields_by_name.items():
        is_required = one.default is MISSING and one.default_factory is MISSING
        if name in options and name != "data":
            _check_type(name, options[name], _TOML[one.type], f"write {_EXAMPLES[_TOML[one.type]]}")
        if is_required and name not in options:
            raise InputError(name, f"is missing in {where}", "Add it")
    return kind(**{name: _freeze_lists(value) for name, value in options.items()})


def _freeze_lists(value: Any) -> Any:
    """Turn lists into tuples, in tables too: the description of a data set must be hashable."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, dict):
        return {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
    return value


#: The TOML type for the type of a field, as annotated above.
_TOML: dict[Any, type] = {
    "str": str,
    "str | None": str,
    "bool": bool,
    "int": int,
    "int | None": int,
    "float | None": float,
    "Mapping[str, Any]": dict,
    "Mapping[str, tuple[int, ...]]": dict,
    "tuple[str, ...]": list,
    "tuple[str, ...] | None": list,
    "tuple[float, ...]": list,
    "tuple[int, ...]": list,
    "tuple[int, ...] | None": list,
    "Stage2 | None": object,
}
_EXAMPLES = {
    str: 'a text, as "mnist"',
    bool: "true or false",
    int: "a whole number",
    float: "a number with a point",
    dict: "a table, as { epochs = 3 }",
    list: "a list, as [0.1, 0.2]",
    object: "it otherwise",
}


def _check_type(name: str, value: Any, kind: type, fix: str) -> None:
    is_other = isinstance(value, bool) and kind is int
    if isinstance(value, tuple) and kind is list:
        return
    if not isinstance(value, kind) or is_other:
        raise InputError(name, f"is {show_value(value)}", fix[0].upper() + fix[1:])
