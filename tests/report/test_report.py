"""The report: true numbers, the right pictures, nothing from outside, whatever the data holds."""

from __future__ import annotations

import html
import re
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, jaccard_score, precision_score, recall_score
from typer.testing import CliRunner

import uqled
from browsers import needs_chromium
from exports import image_run
from report_pages import HOSTILE, QUOTES, detect_all, hostile_run, page_of
from uqled.answer import describe_answer, describe_estimates, describe_range
from uqled.cli import app
from uqled.cli.predicting import describe_data
from uqled.data import Dataset
from uqled.detect.core.sweeps import Sweeps
from uqled.detect.find import find_errors_in_run
from uqled.report import sections
from uqled.report.page import report_run
from uqled.storage.run import Run

GRAVE = ("serious", "critical")  # of axe-core


def test_numbers_of_every_method_are_true(data, tmp_path):
    errors = detect_all(data)
    path = errors.report(tmp_path / "r.html", None, data.softmax, data.passes, truth=data.true)
    text = page_of(path).text
    assert f"{errors.n_flagged} of 600 labels" in text
    right = precision_score(data.is_error, errors.mask), recall_score(data.is_error, errors.mask)
    assert f"precision {right[0]:.1%}" in text
    assert f"recall {right[1]:.1%}" in text
    for name, one in errors.by_method.items():
        expected = [
            rate(data.is_error, one.mask) for rate in (precision_score, recall_score, f1_score)
        ]
        numbers = " ".join(f"{value:.3f}" for value in expected)
        assert f"{name} {one.n_flagged} {one.mask.mean():.1%} {numbers}" in text


def test_the_estimated_number_of_errors(data, tmp_path):
    errors = detect_all(data)
    number = errors.estimate.number
    text = page_of(errors.report(tmp_path / "r.html")).text
    share = number.value / 600
    interval = f"{share:.2%}; 80% interval {number.low:.0f} to {number.high:.0f}"
    assert f"labels wrong, estimated {number.value:.0f} {interval}" in text
    real = errors.answer.precision
    one = (
        f"{real.value:.0%}"
        if errors.answer.unsure is None and real.high - real.low <= 0.1
        else f"{real.low:.0%} to {real.high:.0%}"
    )
    assert f"flags that are real {one}" in text
    assert f"wrong with probability {errors.probability[errors.ranked[20]]:.1%}" in text
    for tier in errors.tiers:
        words = describe_range(tier.precision)
        assert f"{tier.name} {tier.n_samples:,} {words} of them are wrong, estimated" in text
    errors = detect_all(data, method="cl-mcd")
    text = page_of(errors.report(tmp_path / "r.html")).text
    n_off_diagonal = 600 - np.trace(errors.joint)
    assert (
        f"labels wrong, estimated {n_off_diagonal} {n_off_diagonal / 600:.2%}, by the noise matrix"
        in text
    )


def test_shares_that_are_known_for_certain_are_no_interval(data, tmp_path):
    errors = detect_all(data)
    decided_errors = errors.with_verdicts({int(i): True for i in errors.ranked})
    while not (decided_errors.estimate.known[decided_errors.mask] == 1).all():  # the flags follow
        flagged_rows = np.flatnonzero(decided_errors.mask)
        decided_errors = errors.with_verdicts({int(i): True for i in flagged_rows})
    lines = describe_answer(decided_errors.answer)
    page = page_of(decided_errors.report(tmp_path / "r.html")).text
    n = decided_errors.tiers[0].n_samples
    assert f"{n:,}  almost certainly wrong (all of them are wrong, as reviewers decided)" in lines
    assert f"almost certainly wrong {n:,} all of them are wrong, as decided" in page
    assert "all flags are real; they include " in lines
    assert "100% to 100%" not in lines + page


def test_estimates_follow_what_reviewers_decided(data, tmp_path):
    folder = hostile_run(tmp_path, data, [f"text {z}" for z in range(600)])
    predictions = Run.open(folder).predictions()
    before = uqled.find_label_errors(predictions)
    actions = np.zeros(600, np.int8)
    actions[before.ranked[:40]] = 1  # all of them kept: the flags are worth less than was thought
    codes = predictions.labels.codes
    after = uqled.find_label_errors(predictions, verdicts=(actions, codes))
    text = page_of(report_run(folder, verdicts=(actions, codes), top=5)).text
    assert "40 decisions of reviewers are taken as certain" in text
    assert "reviewed:" not in text  # what was kept is no suspect
    assert f"labels wrong, estimated {after.estimate.number.value:.0f} " in text
    assert after.estimate.number.value < before.estimate.number.value
    first, second = before.ranked[:2].tolist()
    actions[first], actions[second] = 2, 3
    other = int(np.flatnonzero(np.arange(5) != codes[first])[-1])
    report = page_of(
        report_run(folder, verdicts=(actions, np.where(actions == 2, other, -1)), top=2)
    )
    cards = {
        f"text {z}": " ".join(card)
        for z in (first, second)
        for card in report.articles
        if f"text {z} " in " ".join(card)
    }
    names = predictions.labels.names
    assert f"reviewed: now {names[other]}" in cards[f"text {first}"]
    assert "reviewed: dropped" in cards[f"text {second}"]


def test_what_is_unsure_is_said_to_be(data, tmp_path):
    errors = uqled.find_label_errors(data.labels, data.softmax)
    vars(errors.estimate)["unsure"] = "The model is weak."
    real = errors.estimate.precision(errors.mask, confidence=0.95)
    text = page_of(errors.report(tmp_path / "r.html")).text
    assert f"Unsure. {errors.estimate.unsure}" in text
    assert f"flags that are real {real.low:.0%} to {real.high:.0%} unsure" in text


def test_agreement_is_the_jaccard_index(data):
    errors = detect_all(data)
    agreement = sections.compare_methods(errors)
    masks = [one.mask for one in errors.by_method.values()]
    expected = [[jaccard_score(a, b) for b in masks] for a in masks]
    assert np.array(agreement.cells) == pytest.approx(np.array(expected))
    assert agreement.rows == list(errors.by_method)
    assert (
        sections.compare_methods(detect_all(data, method="cl-mcd")) is None
    )  # nothing to compare with
    times = np.sum(masks, axis=0)
    assert sections.count_times_flagged(errors) == [
        (times == n).sum() for n in range(len(masks) + 1)
    ]


def test_the_noise_map_is_the_noise_matrix(data):
    errors = detect_all(data)
    noise = sections.map_noise(errors)
    assert np.array(noise.cells) == pytest.approx(uqled.noise_matrix(errors.joint))
    strengths = np.array(noise.strengths)
    off = ~np.eye(5, dtype=bool)
    assert strengths[off].max() == 1 == strengths.max()
    largest = np.argmax(np.array(noise.cells) * off)
    assert strengths.argmax() == largest
    off_joint = errors.joint[~np.eye(5, dtype=bool)].sum()
    assert errors.answer.n_off_diagonal == off_joint


@pytest.mark.parametrize("K", [60, 2_100])
def test_of_many_classes_the_most_confused_are_shown(K, tmp_path):
    rng = np.random.default_rng(0)
    true = np.arange(2 * K) % K
    labels = true.copy()
    confused_samples = np.flatnonzero(true < 20)[:30]
    labels[confused_samples] = (true[confused_samples] + 1) % 20
    probs = np.full((2 * K, K), 0.3 / (K - 1))
    probs[np.arange(2 * K), true] = 0.7 - rng.random(2 * K) / 10
    probs /= probs.sum(axis=1, keepdims=True)
    errors = uqled.find_label_errors(labels, probs, method="cl-pbnr")
    noise = sections.map_noise(errors)
    joint = errors.joint if K <= 2_000 else errors.joint.toarray()
    rows = [int(name) for name in noise.rows]
    assert len(rows) <= 30
    assert np.array(noise.cells) == pytest.approx(uqled.noise_matrix(joint)[np.ix_(rows, rows)])
    largest = np.argsort(-(joint * ~np.eye(K, dtype=bool)).ravel(), kind="stable")[0]
    assert {*divmod(int(largest), K)} <= set(rows)
    page = page_of(errors.report(tmp_path / "r.html", pred_probs=probs))
    assert f"most confused of {K:,} classes" in page.text


def test_distributions_are_histograms_of_the_two_groups(data):
    errors = detect_all(data)
    score, entropy, information = sections.list_distributions(errors)
    counts, _ = np.histogram(errors.scores[errors.mask], len(score.flagged), (0, 1))
    assert score.flagged == pytest.approx(counts / counts.max())
    assert score.medians[1] == pytest.approx(np.median(errors.scores[~errors.mask]))
    assert entropy.high == pytest.approx(np.log(5))
    assert information.is_cut
    assert information.high < errors.mutual_information.max()
    softmax = uqled.find_label_errors(data.labels, data.softmax, method="all")
    assert [one.title for one in sections.list_distributions(softmax)] == ["score"]


def test_classes_and_pairs_add_up(data):
    errors = detect_all(data)
    rows = sections.list_class_rows(errors, data.is_error)
    assert sum(row.given for row in rows) == 600
    assert sum(row.flagged for row in rows) == errors.n_flagged
    assert sum(row.wrong for row in rows) == data.is_error.sum()
    assert [row.share for row in rows] == sorted((row.share for row in rows), reverse=True)
    pairs = pd.crosstab(errors.given[errors.mask], errors.suggested[errors.mask]).stack()
    first = sections.list_pair_rows(errors)[0]
    assert first.number == pairs.max() == pairs[int(first.given), int(first.suggested)]
    assert first.share == first.number / (data.labels == int(first.given)).sum()
    of_class = pairs[pairs.index.get_level_values(0) == int(rows[0].name)]
    assert of_class.max() == of_class[int(rows[0].name), int(rows[0].suggested)]


def test_nothing_flagged(tmp_path):
    probs = np.tile([[0.9, 0.1], [0.1, 0.9]], (20, 1))
    labels = np.tile([0, 1], 20)
    errors = uqled.find_label_errors(labels, probs, method="all")
    assert errors.n_flagged == 0
    page = page_of(errors.report(tmp_path / "r.html", pred_probs=probs, truth=labels))
    assert "None of 40 labels is flagged" in page.text
    assert page.articles == []


@pytest.mark.parametrize("method", ["all", "cl-pbnr", "low-normalized-margin"])
def test_without_passes(data, tmp_path, method):
    errors = uqled.find_label_errors(data.labels, data.softmax, method=method)
    page = page_of(errors.report(tmp_path / "r.html", pred_probs=data.softmax))
    assert "mutual information" not in page.text
    z = errors.ranked[0]
    assert f"{data.softmax[z].max():.1%}" in " ".join(page.articles[0])


def test_only_what_was_found(data, tmp_path):
    errors = detect_all(data, method="alg-ens")
    page = page_of(errors.report(tmp_path / "r.html"))
    assert "Why they were flagged" not in page.text
    assert len(page.articles) >= 60
    assert "alg-ens-3" in page.text


def test_numbers_take_the_names_of_the_data(data, tmp_path):
    names = ["ant", "bee", "cat", "dog", "eel"]
    texts = np.array([f"text {z}" for z in range(600)], object)
    dataset = Dataset.from_arrays(texts, data.labels, classes=names)
    errors = detect_all(data)
    page = page_of(errors.report(tmp_path / "r.html", dataset))
    z = errors.ranked[0]
    assert page.articles[0][:4] == [texts[z], names[data.labels[z]], "→", names[errors.best[z]]]
    other = Dataset.from_arrays(texts, np.array(["x", "y"])[data.labels % 2])
    with pytest.raises(uqled.InputError, match="data has the classes x, y"):
        errors.report(tmp_path / "r.html", other)


def test_what_does_not_belong_together_is_refused(data, tmp_path):
    errors = detect_all(data)
    path = tmp_path / "r.html"
    path.write_text("precious")
    for arguments, message in (
        ({"pred_probs": data.softmax[:9]}, "pred_probs"),
        ({"passes": data.softmax}, "passes"),
        ({"truth": data.true[:9]}, "truth has 9 samples for 600 labels"),
        ({"truth": data.true + 90}, "truth contain"),
        ({"data": np.zeros((9, 2))}, "for 600 labels|9"),
        ({"top": -1}, "top is -1"),
    ):
        with pytest.raises(uqled.InputError, match=message):
            errors.report(path, **arguments)
    assert path.read_text() == "precious"
    with pytest.raises(uqled.FileError, match="Make the folder first"):
        errors.report(tmp_path / "no" / "r.html")


def test_the_same_run_gives_the_same_file(data, tmp_path):
    first = detect_all(data).report(tmp_path / "1.html", None, data.softmax, data.passes)
    second = detect_all(data, threads=1).report(
        tmp_path / "2.html", None, data.softmax, data.passes
    )
    assert first.read_bytes() == second.read_bytes()


def test_the_command_line(data, tmp_path):
    folder = hostile_run(tmp_path, data, [f"text {z}" for z in range(600)])

    def invoke(*arguments):
        return CliRunner().invoke(app, ["report", *map(str, arguments)])

    out = tmp_path / "other.html"
    result = invoke(folder, "--out", out, "--method", "cl-mcd", "--top", 3)
    assert result.exit_code == 0, result.output
    page = page_of(out)
    errors = uqled.find_label_errors(Run.open(folder).predictions(), method="cl-mcd")
    assert f"{errors.n_flagged} of 600 labels" in page.text
    assert len(page.articles) == 3
    assert f"text {errors.ranked[0]}" in page.articles[0]
    assert invoke(folder, "--method", "alg-ens").exit_code == 0
    refusal = invoke(folder, "--method", "x")
    assert refusal.exit_code == 2
    assert "method is 'x'. Choose one of " in refusal.stderr
    assert "cl-mcd-ens, alg-ens, " in refusal.stderr
    assert "holds no run" in invoke(tmp_path).stderr

    (tmp_path / "data.csv").unlink()  # the data has gone; what the run knows is still there
    result = invoke(folder, "--out", out)
    assert result.exit_code == 0, result.output
    page = page_of(out)
    assert "The samples cannot be shown" in page.text
    assert len(page.articles) >= 60


def test_the_report_repeats_the_last_detection_of_the_run(data, tmp_path):
    folder = hostile_run(tmp_path, data, [f"text {z}" for z in range(600)])
    predictions = Run.open(folder).predictions()
    for options in (
        {"method": "alg-ens", "agreement": 4},
        {"method": "alg-ens", "agreement": 1},
        {"method": "cl-mcd-e", "entropy_class": "given"},
        {"method": "cl-pbnr", "frac_noise": 0.3, "min_examples_per_class": 5},
        {"method": "auto", "budget": 7},
        {"method": "auto", "cost": (1, 20)},
    ):
        words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        words = [word.replace("(1, 20)", "1,20") for word in words]
        result = CliRunner().invoke(app, ["detect", str(folder), *words])
        assert result.exit_code == 0, result.output
        errors = uqled.find_label_errors(predictions, **options)
        again = find_errors_in_run(predictions)
        assert again.method == errors.method
        np.testing.assert_array_equal(again.mask, errors.mask)
        result = CliRunner().invoke(app, ["report", str(folder), "--top", "0"])
        assert result.exit_code == 0, result.output
        assert f"{errors.n_flagged} of 600 labels" in page_of(folder / "report.html").text


def test_find_detects_once_and_ends_with_a_report(tmp_path, monkeypatch):
    sweep, sweeps = Sweeps.collect_class_statistics, []

    def count_sweeps(self, members):
        sweeps.append(self.N)
        return sweep(self, members)

    monkeypatch.setattr(Sweeps, "collect_class_statistics", count_sweeps)
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 90)
    frame = pd.DataFrame(rng.normal(size=(90, 2)) + 3 * kind[:, None], columns=["x", "y"])
    frame["label"] = np.array(["low", "mid", "top"])[np.where(np.arange(90) < 5, 0, kind)]
    frame.to_csv(tmp_path / "d.csv", index=False)
    out = tmp_path / "run"
    result = CliRunner().invoke(
        app, ["find", str(tmp_path / "d.csv"), "--out", str(out), "--model", "logistic",
              "--folds", "2", "--passes", "2"],
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert f"The report, to open in a browser, is {out / 'report.html'}" in result.output
    assert "x" in page_of(out / "report.html").articles[0]
    assert sweeps == [90]  # every method, the table and the report from the same sweeps
    table = pd.read_parquet(out / "issues.parquet")
    assert {"auto", "cl-pbnr", "cl-mcd", "alg-ens-3", "argmax-mean"} <= set(table.columns)
    assert (table["auto"] == table["is_label_issue"]).all()


def test_what_could_not_be_read_is_told():
    data = Dataset.from_arrays(np.zeros((2, 2)), ["a", "b"])
    assert describe_data(data)[0].endswith(": 2 rows, 2 classes")
    line, *_ = describe_data(replace(data, skipped={"x.jpg": "is empty", "y.jpg": "is cut"}))
    assert "2 classes, 2 skipped because unreadable, such as x.jpg (is empty)" in line


def test_a_large_run_makes_a_small_file_soon(tmp_path):
    N, K, F = 50_000, 200, 3
    rng = np.random.default_rng(0)
    true = rng.integers(0, K, N)
    labels = np.where(rng.random(N) < 0.2, rng.integers(0, K, N), true)
    passes = rng.random((F, N, K), np.float32)
    passes[:, np.arange(N), true] += 40 * rng.random((F, N), np.float32)
    passes /= passes.sum(axis=2, keepdims=True)
    noise = rng.integers(0, 256, (224, 224, 3), np.uint8)  # JPEG's worst case
    images = np.broadcast_to(noise, (N, *noise.shape))
    errors = uqled.find_label_errors(labels, passes[0], passes, method="all")
    assert errors.n_flagged > 5_000
    dataset = Dataset.from_arrays(images, labels)
    begin = time.perf_counter()
    path = errors.report(tmp_path / "r.html", dataset, passes[0], passes, truth=true)
    assert time.perf_counter() - begin < 30  # seconds in practice; a slow machine gets more
    assert path.stat().st_size < 15e6
    assert len(page_of(path).all("img")) >= 60


@needs_chromium
def test_a_browser_shows_it_without_complaint(data, tmp_path, browser):
    folder = hostile_run(tmp_path, data, [f"{z} {HOSTILE} {QUOTES}" for z in range(600)])
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 0
    complaints, requests = [], []
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.on("request", lambda request: requests.append(request.url))
    page.goto((folder / "report.html").as_uri())
    cards = page.locator("article")
    assert cards.count() >= 60
    wide = page.evaluate("document.documentElement.scrollWidth")
    page.locator("label[for=why-2]").click()
    visible_cards = [card for card in cards.all() if card.is_visible()]
    badges = {card.locator(".badge:not(.tier)").inner_text() for card in visible_cards}
    assert complaints == []
    assert all(re.match("file:|data:", url) for url in requests)
    assert wide <= 390
    assert badges == {"ambiguous"}


@needs_chromium
def test_axe_finds_nothing_serious_in_a_report(tmp_path, browser):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    folder = image_run(tmp_path)
    assert CliRunner().invoke(app, ["report", str(folder)]).exit_code == 0
    for scheme in ("light", "dark"):
        page = browser.new_page(bypass_csp=True, color_scheme=scheme)
        page.goto((folder / "report.html").as_uri())
        answer = axe.run(page).response
        assert len(answer["passes"]) > 10  # the rules were really run
        violations = [one for one in answer["violations"] if one["impact"] in GRAVE]
        assert [(one["id"], one["nodes"][0]["html"][:100]) for one in violations] == [], scheme


def test_the_report_begins_with_the_answer_and_the_samples(tmp_path):
    """It names the data, the model, the date and the next step; statistics come after."""
    folder = image_run(tmp_path)
    result = CliRunner().invoke(app, ["report", str(folder)])
    assert result.exit_code == 0, result.output
    text = (folder / "report.html").read_text()
    errors = uqled.find_label_errors(Run.open(folder).predictions(), method="all")
    sentence = describe_estimates(errors.answer)[0]
    order = ["labels are wrong", "uqled review", 'id="samples"', 'id="numbers"', 'id="methods"']
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert f"{sentence[0].upper()}{sentence[1:]}." in html.unescape(text)
    page = page_of(folder / "report.html").text
    assert f"data {tmp_path / 'data'}" in page
    assert "model made up" in page
    assert re.search(r"predicted on \d{4}-\d\d-\d\d", page)
    assert f"uqled review {folder}" in page
