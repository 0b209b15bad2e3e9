"""Suites that a stranger wrote or a disk damaged: read right, or refused by name."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import uqled
from uqled.bench.results.figures import name_files
from uqled.bench.suite import Suite, SuiteData, list_builtin_suites, read_suite
from uqled.cli import app

SMALLEST = """
about = "One forest on a few digits."
rates = [0.1, 0.2]
seeds = [0, 1]
folds = 2
passes = 2
methods = ["cl-pbnr", "cl-mcd"]
noise = { kind = "sparse", zeros = 0.5 }

[stage2]
methods = ["cl-pbnr"]
seeds = { "0.1" = [0] }
relabel = [0.1]
relabel_seeds = [0]

[[data]]
name = "digits"
title = "Digits"
place = "digits"
test_share = 0.5
limit = 200
model = "small"
training = { epochs = 3, milestones = [1, 2] }
"""


def read(tmp_path, content: str | bytes) -> Suite:
    path = tmp_path / "own.toml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_suite(str(path), allow_code=True)


def refuse(tmp_path, content: str | bytes, problem: str) -> str:
    """The error that a suite is refused with, which names the suite."""
    with pytest.raises(uqled.InputError, match=problem) as error_info:
        read(tmp_path, content)
    assert "own.toml" in str(error_info.value)
    assert error_info.value.fix
    return str(error_info.value)


def test_the_suite_that_the_tests_change_is_one(tmp_path):
    suite = read(tmp_path, SMALLEST)
    assert suite.data[0].training == {"epochs": 3, "milestones": (1, 2)}
    assert hash(tuple(suite.data[0].training.items()))  # data sets are cached by what they are


# -- damaged bytes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (SMALLEST.replace("Digits", "Zähler").encode("latin-1"), "UTF-8"),
        (SMALLEST.encode("utf-16"), "UTF-8"),
        (b"\xff\xfe\x00\x01", "UTF-8"),
        (b"a = " + b"[" * 5_000, "is not valid TOML"),
        (b"a = " + b"{b = " * 5_000, "is not valid TOML"),
        (b"passes = " + b"9" * 5_000, "is not valid TOML"),
        (b"passes = 0x" + b"f" * 5_000, "data"),
        (b"", "data has no entry"),
        (b"\x00", "is not valid TOML"),
    ],
    ids=["latin-1", "utf-16", "binary", "lists", "tables", "digits", "hex", "empty", "nul"],
)
def test_damaged_suites_are_refused_by_name(tmp_path, content, problem):
    refuse(tmp_path, content, problem)


def mutate(content: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, cut out, doubled or put in."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at, n = rng.randrange(len(data) + 1), rng.randint(1, 8)
        kind = rng.randrange(5)
        if kind == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            del data[at : at + n]
        elif kind == 2:
            data[at:at] = data[at : at + n]
        elif kind == 3:
            data[at:at] = rng.choice(
                [b"[", b'"', b"-", b"nan", b"inf", b"0x" + b"f" * 4_000, b"\n[[data]]\n", b"'..'"]
            )
        else:
            del data[at:]
    return bytes(data)


def check_mutations(tmp_path, seeds) -> int:
    """How many of the mutations are still suites; all others are refused by name."""
    n_accepted = 0
    for seed in seeds:
        rng = random.Random(seed)
        content = mutate(SMALLEST.encode(), rng)
        try:
            read(tmp_path, content)
            n_accepted += 1
        except uqled.InputError as error:
            if "own.toml" not in str(error):
                raise
    return n_accepted


def test_a_thousand_mutations_are_refused_or_read(tmp_path):
    assert 10 < check_mutations(tmp_path, range(1_000)) < 600


@pytest.mark.slow
def test_many_mutations_are_refused_or_read(tmp_path):
    assert check_mutations(tmp_path, range(1_000, 30_000)) > 100


# -- values that cannot be ------------------------------------------------------------------------

HUGE_INTEGER = "0x" + "f" * 4_000  # an integer that Python refuses to print

WRONG_SUITES = {
    "rates = [0.1, 0.2]": [
        ("rates = [nan]", "rates"),
        ("rates = [inf]", "rates"),
        ("rates = [-0.1]", "rates"),
        ('rates = ["0.1"]', "rates"),
        ("rates = [[0.1]]", "rates"),
        ("rates = [true]", "rates"),
        ("rates = [1979-05-27]", "rates"),
        (f"rates = [{HUGE_INTEGER}]", "rates"),
        ("rates = []", "rates"),
        ("rates = [0.1, 0.10000001]", "rates .*Name each once"),  # one folder for both
    ],
    "seeds = [0, 1]": [
        ("seeds = [[0]]", "seeds"),
        ("seeds = [{}]", "seeds"),
        ("seeds = [-1]", "seeds"),
        ("seeds = [0.5]", "seeds"),
        ("seeds = [4294967296]", "seeds"),  # more than scikit-learn takes
        (f"seeds = [{HUGE_INTEGER}]", "seeds"),
    ],
    "folds = 2": [
        ("folds = 0", "folds"),
        ("folds = nan", "folds"),
        ("folds = 1000000000000", "suite_cells"),
        (f"folds = {HUGE_INTEGER}", "folds"),
    ],
    "passes = 2": [
        ("passes = 0", "passes"),
        ("passes = true", "passes"),
        ("passes = -5", "passes"),
    ],
    '"cl-pbnr", "cl-mcd"]': [
        ('["cl-pbnr"]]', "methods"),
        ('"cl-pbnr", ["cl-mcd"]]', "methods"),
        ('"cl-pbnr", "..:x"]', "methods"),
        ('"cl-pbnr", ":"]', "methods"),
        ('"cl-pbnr", "../x:y"]', "methods"),
        ('"cl-pbnr", "os:name"]', "is not a function"),
        ('"cl-pbnr", "os:nothing"]', "cannot be imported"),
    ],
    'noise = { kind = "sparse", zeros = 0.5 }': [
        ('noise = { kind = ["sparse"] }', "noise"),
        ("noise = { kind = 3 }", "noise"),
        ("noise = {}", "noise"),
        ('noise = { kind = "sparse" }', "zeros"),
        ('noise = { kind = "sparse", zeros = nan }', "zeros"),
        ('noise = { kind = "sparse", zeros = "0" }', "zeros"),
        ('noise = { kind = "symmetric", zeros = 0.5 }', "zeros"),
        ('noise = { kind = "symmetric", rate = 0.5 }', "rate"),
        ('noise = { kind = "similarity", pred_probs = [[1.0]] }', "pred_probs"),
    ],
    'seeds = { "0.1" = [0] }': [
        ('seeds = { "0.1" = [[0]] }', "stage2.seeds"),
        ('seeds = { "0.1" = ["0"] }', "stage2.seeds"),
        ('seeds = { "nan" = [0] }', "stage2.seeds"),
    ],
    "relabel = [0.1]": [("relabel = [[0.1]]", "relabel"), ("relabel = [nan]", "relabel")],
    "relabel_seeds = [0]": [("relabel_seeds = [{}]", "relabel_seeds")],
    'methods = ["cl-pbnr"]': [("methods = [[1]]", "stage2.methods")],
    "limit = 200": [
        ("limit = 0", "limit"),
        ("limit = -200", "limit"),
        ("limit = 200.0", "limit"),
        ("test_limit = -1", "test_limit"),
        ("retraining_limit = 0", "retraining_limit"),
        ("image_size = -32", "image_size"),
        ("image_size = 1000000", "image_pixels"),
        (f"limit = {HUGE_INTEGER}", "limit"),
        ("split = 3", "split"),
    ],
    "test_share = 0.5": [
        ("test_share = nan", "test_share"),
        ("test_share = 0.0", "test_share"),
        ("test_share = 1.0", "test_share"),
        ("test_share = -0.5", "test_share"),
    ],
    'model = "small"': [
        ('model = "gigantic"', "model is 'gigantic'"),
        ('model = ""', "model"),
        ('model = "forest"', "epochs"),  # which has no epochs
        ("model = 3", "model"),
    ],
    "{ epochs = 3, milestones = [1, 2] }": [
        ("{ epochz = 3 }", "epochz is not a training option"),
        ("{ epochs = 0 }", "epochs"),
        ("{ epochs = nan }", "epochs"),
        ("{ epochs = [3] }", "epochs"),
        ("{ lr = nan }", "lr"),
        ("{ lr = inf }", "lr"),
        ('{ lr = "fast" }', "lr"),
        ("{ momentum = -1.0 }", "momentum"),
        ("{ milestones = 3 }", "milestones"),
        ("{ milestones = [[1]] }", "milestones"),
        ('{ nesterov = "yes" }', "nesterov"),
        ('{ device = ["cpu"] }', "device"),
        ('{ preset = ["fast"] }', "preset"),
        ('{ preset = "slow" }', "preset"),
        ('{ uncertainty = "magic" }', "uncertainty"),
        ("{ uncertainty = [1] }", "uncertainty"),
        ('{ model = "small" }', "model is not a training option"),
        ("{ data = 1 }", "data is not a training option"),
        (f"{{ epochs = {HUGE_INTEGER} }}", "epochs"),
    ],
}


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [(old, new, problem) for old, changes in WRONG_SUITES.items() for new, problem in changes],
    ids=lambda text: text[:60],
)
def test_values_that_cannot_be_are_refused_when_the_suite_is_read(tmp_path, old, new, problem):
    assert old in SMALLEST
    refuse(tmp_path, SMALLEST.replace(old, new), problem)


def test_a_suite_has_a_limit_of_cells_that_can_be_raised(tmp_path):
    text = SMALLEST.replace("folds = 2", "folds = 500000")
    assert "UQLED_LIMIT_SUITE_CELLS" in refuse(tmp_path, text, "suite_cells")
    with uqled.limits.override_limits(suite_cells=10**9):
        assert read(tmp_path, text).folds == 500_000


def test_the_training_of_classifiers_has_a_source_of_passes_only(tmp_path):
    text = SMALLEST.replace('model = "small"', 'model = "logistic"')
    suite_text = text.replace(
        "{ epochs = 3, milestones = [1, 2] }", '{ uncertainty = "bootstrap" }'
    )
    assert read(tmp_path, suite_text).data[0].training == {"uncertainty": "bootstrap"}


# -- names ----------------------------------------------------------------------------------------

NO_FOLDERS = [
    "..", ".", "", " ", "a/b", "a\\b", "../up", "/abs", "a\tb", "a\nb", "a\x00b", "a\x1b[31mb",
    "con", "NUL", "com1", "aux.old", "a.", ".hidden", ".uqled-x", "a" * 200, "a:b", "\u2028",
]  # fmt: skip


@pytest.mark.parametrize("name", NO_FOLDERS, ids=ascii)
def test_data_names_that_are_no_folders_are_refused(tmp_path, name):
    entry = SuiteData(name, "digits", test_share=0.5)
    with pytest.raises(uqled.InputError, match="no folder's name"):
        Suite("own", (entry,))
    if name.isprintable():
        text = SMALLEST.replace('name = "digits"', f"name = {name!a}")
        refuse(tmp_path, text, "name")


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a\nb", "a\x1bb", "x" * 300], ids=ascii)
def test_a_suite_that_is_called_what_nothing_can_be_is_refused(name):
    with pytest.raises(uqled.InputError, match="name"):
        Suite(name, (SuiteData("digits", "digits"),))


def test_a_suite_called_two_dots_is_refused(tmp_path):
    refuse(tmp_path, 'name = ".."\n' + SMALLEST, "name")
    path = tmp_path / "...toml"
    path.write_text(SMALLEST)
    with pytest.raises(uqled.InputError, match="name"):
        read_suite(str(path))


@pytest.mark.parametrize("title", ["two\nlines", "\x1b[31m", "\x00", "\ud800", "\uffff"], ids=ascii)
def test_titles_of_other_than_one_line_of_text_are_refused(title):
    with pytest.raises(uqled.InputError, match="title"):
        Suite("own", (SuiteData("digits", "digits", title=title),))


def test_two_data_sets_of_one_title_would_share_their_rows():
    one, other = SuiteData("one", "digits", title="Digits"), SuiteData("Digits", "digits")
    with pytest.raises(uqled.InputError, match="'Digits'"):
        Suite("own", (one, other))


def test_paths_that_no_system_has_are_refused():
    with pytest.raises(uqled.InputError, match="place"):
        Suite("own", (SuiteData("digits", "dig\x00its"),))
    with pytest.raises(uqled.InputError, match="test_place"):
        Suite("own", (SuiteData("digits", "digits", test_place="\x00"),))


def test_names_of_suites_that_cannot_be_opened(tmp_path):
    for name in (str(tmp_path / "none.toml"), str(tmp_path / ("x" * 300 + ".toml")), "a\x00.toml"):
        with pytest.raises(uqled.FileError):
            read_suite(name)
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(uqled.FileError, match=r"folder\.toml"):
        read_suite(str(tmp_path / "folder.toml"))


def test_names_that_are_folders_stay():
    names = ("cifar10-probe", "tiny.imagenet", "Ünïcode", "a_b", "console", "1")
    for name in names:
        assert Suite("my suite", (SuiteData(name, "digits"),)).data[0].name == name
    assert [
        replace(read_suite(name)).name for name in list_builtin_suites()
    ] == list_builtin_suites()


def test_file_stems_are_never_alike():
    names = ["a b", "a-b", "a-b-2", "A.B", "$", "…", "a-b-3"]
    assert len(set(name_files(names).values())) == len(names)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"cl-mcd"]', '"cl-mcd", "planted:flag"]'),
        ('methods = ["cl-pbnr"]', 'methods = ["planted:flag"]'),
        ('model = "small"', 'model = "planted:flag"'),
        ("rates", 'clean_first = "planted:flag"\nrates'),
    ],
)
def test_code_of_a_stranger_is_not_imported(tmp_path, monkeypatch, old, new):
    (tmp_path / "planted.py").write_text("open('ran', 'w').close()\ndef flag(*_): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "suite.toml"
    assert old in SMALLEST
    path.write_text(SMALLEST.replace(old, new, 1))
    with pytest.raises(uqled.InputError, match=r"names code to run, 'planted:flag'.*--allow-code"):
        read_suite(str(path))
    result = CliRunner().invoke(app, ["bench", str(path), "--plan"])
    assert result.exit_code == 2
    assert not (tmp_path / "ran").exists()
