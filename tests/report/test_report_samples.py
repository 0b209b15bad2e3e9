"""The samples that a report shows: pictures, texts and rows of the data, which stay text."""

from __future__ import annotations

import base64
import io
import json
import os
import time

import numpy as np
import pandas as pd
from PIL import Image
from typer.testing import CliRunner

import uqled
from exports import image_run
from report_pages import HOSTILE, QUOTES, detect_all, hostile_run, page_of
from uqled.cli import app
from uqled.data import Dataset, load
from uqled.detect.reasons import find_reasons
from uqled.report.thumbnails import make_thumbnail
from uqled.storage.run import Run


def test_the_gallery_shows_the_most_suspect_with_reason_and_truth(data, tmp_path):
    errors = detect_all(data)
    path = errors.report(
        tmp_path / "r.html", None, data.softmax, data.passes, truth=data.true, top=7
    )
    page = page_of(path)
    why = find_reasons(data.labels, data.softmax, data.passes, errors.ranked)
    first = {np.flatnonzero(why == reason)[0] for reason in set(why)}  # 7 // 5 of each reason
    places = sorted(first | set(range(7)))
    assert len(places) > 7
    assert len(page.articles) == len(places)
    mean = data.passes.mean(axis=0)
    for at, texts in zip(places, page.articles, strict=True):
        z, card = errors.ranked[at], " ".join(texts)
        assert card.startswith(f"{data.labels[z]} → {errors.suggested[z]} {why[at]} ")
        assert f"{mean[z].max():.1%}" in card
        assert errors.tier[z] in card
        methods = sum(one.mask[z] for one in errors.by_method.values())
        assert f"{z} rank {at + 1}, flagged by {methods} of {len(errors.by_method)} methods" in card
        mark = f"really wrong: {data.true[z]}" if data.is_error[z] else "given label is right"
        assert mark in card
    counts = [f"{reason} {(why == reason).sum()}" for reason in set(why)]
    assert all(one in page.text for one in counts)


def test_small_pictures_are_kept_pixel_by_pixel(tmp_path):
    digits = load("digits", limit=300)
    rng = np.random.default_rng(0)
    truth = digits.labels.codes
    labels = np.where(rng.random(300) < 0.1, (truth + 1) % 10, truth)
    probs = 0.1 * rng.dirichlet(np.ones(10), 300)
    probs[np.arange(300), truth] += 0.9
    errors = uqled.find_label_errors(labels, probs, method="cl-pbnr")
    page = page_of(errors.report(tmp_path / "r.html", digits, probs, top=4))
    images = [image for image in page.all("img") if image["alt"]]
    assert len(page.all("img")) - len(images) == 4 * 2 * 3  # beside each, typical ones
    assert len(images) == 4
    for z, image in zip(errors.ranked, images, strict=False):
        picture = Image.open(io.BytesIO(base64.b64decode(image["src"].partition(",")[2])))
        assert (np.asarray(picture) == digits.inputs[z, :, :, 0]).all()
        assert (image["class"], image["width"]) == ("pixels", "200")
        assert image["alt"] == f"sample {digits.ids[z]}"


def test_large_pictures_are_made_small():
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (3, 5, 3), np.uint8)
    image = np.asarray(Image.fromarray(coarse).resize((500, 300)))
    small = make_thumbnail(image)
    picture = Image.open(io.BytesIO(small.content))
    assert picture.size == (small.width, small.height) == (160, 96)
    assert picture.format == "JPEG"
    expected_picture = np.asarray(Image.fromarray(image).resize((160, 96)), float)
    assert np.abs(np.asarray(picture, float) - expected_picture).mean() < 4
    assert make_thumbnail(image[:, :, :1]).content != small.content


def test_names_and_texts_from_the_data_stay_text(data, tmp_path):
    texts = [f"{z} {HOSTILE} {QUOTES} {{{{ 7 * 7 }}}}" for z in range(600)]
    folder = hostile_run(tmp_path, data, texts)
    result = CliRunner().invoke(app, ["report", str(folder)])
    assert result.exit_code == 0, result.output
    assert str(folder / "report.html") in result.output
    page = page_of(folder / "report.html")
    assert page.all("img") == []
    errors = uqled.find_label_errors(Run.open(folder).predictions(), method="all")
    assert texts[errors.ranked[0]] in " ".join(page.articles[0])
    assert HOSTILE in page.text
    assert "</style></svg>" in page.text


def test_a_name_that_is_no_text_is_shown_with_question_marks(data, tmp_path):
    ids = np.array([f"file\udcff{z}" for z in range(600)], object)
    frame = pd.DataFrame({"size": np.linspace(0, 1, 600), "colour": ["red"] * 600})
    dataset = Dataset.from_arrays(frame, data.labels, ids=ids)
    errors = detect_all(data)
    page = page_of(errors.report(tmp_path / "r.html", dataset, data.softmax, data.passes))
    assert f"file?{errors.ranked[0]}" in page.text


def test_rows_of_a_table(data, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((600, 20)), columns=[f"{HOSTILE}{k}" for k in range(20)])
    frame.insert(1, "colour", "red")
    errors = detect_all(data)
    page = page_of(errors.report(tmp_path / "r.html", frame, data.softmax, data.passes))
    card = " ".join(page.articles[0])
    z = errors.ranked[0]
    assert card.startswith(f"{HOSTILE}0 {frame.iloc[z, 0]:.6g} colour red {HOSTILE}1")
    assert "and 9 more" in card
    numbers = frame.drop(columns="colour").to_numpy()
    card = " ".join(page_of(errors.report(tmp_path / "r.html", numbers)).articles[0])
    assert card.startswith(f"0 {numbers[z, 0]:.6g} 1 {numbers[z, 1]:.6g}")


def test_a_row_has_its_unusual_columns_and_the_nearest_rows_beside_it(data, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((600, 3)), columns=["first", "second", "third"])
    frame["size <cm>"] = 10.0 * data.true + rng.random(600)
    errors = detect_all(data)
    page = page_of(errors.report(tmp_path / "r.html", frame, data.softmax, data.passes))
    z = next(z for z in errors.ranked if errors.suggested[z] == data.true[z] != data.labels[z])
    place = errors.ranked.tolist().index(z)
    card = " ".join(page.articles[place])
    low, high = np.percentile(frame["size <cm>"][data.labels == errors.suggested[z]], [25, 75])
    value = frame["size <cm>"][z]
    assert f"size <cm> {value:.4g}" in card
    assert f"{low:.4g} to {high:.4g}" in card
    label, suggested = data.labels[z], errors.suggested[z]
    assert card.index(f"Most like it: {label}") < card.index(f"Most like it: {suggested}")
    nearest = card[card.index(f"Most like it: {suggested}") :]
    assert nearest.count("size <cm>") == 3  # what is unusual comes first, then other columns
    assert nearest.index("size <cm>") < nearest.index("first")


def test_a_copied_run_keeps_its_date(tmp_path):
    """Copying and downloading give all files a new time."""
    folder = image_run(tmp_path)
    about = json.loads((folder / "run.json").read_text())
    assert abs(about["begun"] - time.time()) < 600
    cases = {946_728_000: "2000-01-0", 10**15: "2001-09-0", "x": "2001-09-0", None: "2001-09-0"}
    for start, date in cases.items():
        (folder / "run.json").write_text(json.dumps(about | {"begun": start}))
        os.utime(folder / "pred_probs.npy", (10**9, 10**9))
        CliRunner().invoke(app, ["report", str(folder)])
        assert f"predicted on {date}" in page_of(folder / "report.html").text
