"""Near duplicates with different labels: found where a sample was copied, and nowhere else."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

import uqled
from uqled.data.inspection import inspect
from uqled.data.inspection.duplicates import find_contradictions
from uqled.data.inspection.equal_samples import join_sets
from uqled.data.inspection.near_images import find_near_images
from uqled.data.inspection.near_texts import compare_texts, find_near_texts
from uqled.detect.contradictions import find_contradicted_labels

STORY = (
    "the new bridge over the river was opened on sunday by the mayor who said that it had taken "
    "eleven years and that nobody in town believed in it any more"
)


def draw_scene(seed, size=64):
    """Smooth areas, edges and a little grain: what a photograph has."""
    random = np.random.default_rng(seed)
    grey, tint = random.integers(20, 236, (6, 6, 1)), random.integers(-20, 20, (6, 6, 3))
    scene = Image.fromarray((grey + tint).astype(np.uint8)).resize(
        (size, size), Image.Resampling.BICUBIC
    )
    pixels = np.asarray(scene).astype(np.int16)
    at = random.integers(8, size // 2, 2)
    pixels[at[0] : at[0] + 14, at[1] : at[1] + 14] = random.integers(0, 256)
    pixels += random.normal(0, 3, pixels.shape).astype(np.int16)
    return np.clip(pixels, 0, 255).astype(np.uint8)


def save_again(pixels, quality, scale=1.0):
    image = Image.fromarray(pixels)
    side = round(len(pixels) * scale)
    file = io.BytesIO()
    image.resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file).resize(image.size, Image.Resampling.BILINEAR))


@pytest.mark.parametrize(
    ("quality", "scale", "least"), [(95, 1, 12), (75, 1, 12), (90, 2, 9), (90, 0.75, 9)]
)
def test_a_picture_saved_again_is_found(quality, scale, least):
    scenes = [draw_scene(seed) for seed in range(12)]
    copies = [save_again(scene, quality, scale) for scene in scenes]
    pairs = find_near_images(np.stack(scenes + copies), np.repeat([0, 1], 12))
    assert len(pairs) >= least
    assert (pairs[:, 1] - pairs[:, 0] == 12).all()


def test_other_pictures_are_not():
    scene = draw_scene(0)
    with_mark, brighter, shifted_scene = scene.copy(), scene.copy(), np.roll(scene, 3, axis=1)
    with_mark[30:36, 30:36] = 255 - with_mark[30:36, 30:36]  # a small thing tells the classes apart
    brighter[:] = np.clip(brighter.astype(int) + 40, 0, 255)
    mirrored_scene, grey_square = scene[:, ::-1], np.full_like(scene, 128)
    others = np.stack(
        [scene, with_mark, brighter, shifted_scene, mirrored_scene, grey_square, grey_square + 3]
    )
    assert not len(find_near_images(others, np.arange(len(others))))


def test_two_strokes_are_two_pictures():
    """Digits, of which two ones are the same to a block but for some pixels at their edges."""
    strokes = np.zeros((2, 28, 28, 1), np.uint8)
    strokes[:, 4:24, 13:16] = 255
    strokes[1, 9:13, 16] = 110
    assert not len(find_near_images(strokes, np.array([0, 1])))


def test_texts_with_other_punctuation():
    texts = ["Where is my card?", "where is my card", "Where is... my card!", "Where is my cart?"]
    assert find_near_texts(texts, np.array([0, 1, 0, 1])).tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("how do I sort in C++ quickly", "how do I sort in C# quickly"),
        ("going home now :)", "going home now :("),
        ("a rise of 5.0% this year", "a rise of 50% this year"),
        ("really?", "really!"),
        ("वह घर की ओर गया", "वह घर का ओर गया"),
    ],
)
def test_punctuation_that_says_something(first, second):
    assert not len(find_near_texts([first, second], np.array([0, 1])))


def test_long_texts_with_a_slip_or_more_at_an_end():
    slip, longer = STORY.replace("believed", "belived"), f"{STORY} again"
    texts = [STORY, slip, longer, STORY.replace("years", "months"), f"not {STORY}", f"{STORY} 12"]
    pairs = find_near_texts(texts, np.arange(6))
    assert {(0, 1), (0, 2)} <= set(map(tuple, pairs.tolist()))
    assert not {3, 4, 5} & set(pairs[pairs[:, 0] == 0, 1].tolist())
    short = STORY.split()[:8]
    assert not len(find_near_texts([" ".join(short), " ".join([*short, "too"])], np.arange(2)))


def is_near_copy(first, second):
    return compare_texts(first, second, 10**6)[0]


def test_a_word_less_in_the_middle_is_no_copy():
    words = STORY.split()
    assert not is_near_copy(words, [word for word in words if word != "nobody"])
    assert not is_near_copy(words, ["unbelieved" if word == "believed" else word for word in words])


def test_exact_ones_come_before_near_ones():
    sets, contents = np.array([0, 0, 0, 1, 1]), np.array([0, 1, 1, 2, 2])
    labels = find_contradicted_labels(
        sets, np.array([0, 1, 1, 0, 1]), np.array([0.1, 0.5, 0.5, 0.6, 0.9]), contents
    )
    assert labels.rows.tolist() == [3, 0]
    assert labels.is_exact.tolist() == [True, False]
    assert labels.duplicates.tolist() == [4, 1]


def test_they_head_the_list_and_say_what_they_are(tmp_path):
    texts = [f"note {z} about the weather in town number {z}" for z in range(30)]
    texts += ["The ferry is late again, they say.", "the ferry is late again they say"]
    labels = np.array([["calm", "rough"][z % 2] for z in range(30)] + ["calm", "rough"])
    data = uqled.Dataset.from_arrays(texts, labels)
    contradictions = find_contradictions(data)
    assert np.flatnonzero(contradictions.sets >= 0).tolist() == [30, 31]
    assert len(set(contradictions.contents[30:].tolist())) == 2
    finding = next(one for one in inspect(data).findings if one.check == "near-duplicates")
    assert finding.message == (
        "2 samples are nearly the same as others with a different label, such as 30 (calm) and "
        "31 (rough)"
    )
    probs = 0.1 + 0.8 * np.eye(2)[data.labels.codes]
    probs[31] = [0.8, 0.2]
    run = uqled.make_run(None, probs, out=tmp_path / "run", data=data)
    errors = uqled.find_label_errors(run)
    assert errors.suspects[0] == 31
    assert errors.duplicates == {31: (30, False)}
    assert (errors.answer.n_contradicted, errors.answer.n_nearly_contradicted) == (0, 1)
    summary = errors.summary()
    assert "1 label contradicts a near duplicate, so one of the two is most likely" in summary
    assert "30 (nearly)" in summary
    page = errors.report(tmp_path / "report.html", run).read_text()
    assert "Nearly the same as row 30, which is labelled calm" in page


def test_long_texts_of_one_word_are_compared_in_bounded_work():
    """Made so that every place where the shorter could begin is compared to its end."""
    long = ["ab"] * 200_000
    texts = [" ".join(long), " ".join([*long[:-9_000], "zz"])]
    assert not len(find_near_texts(texts, np.array([0, 1])))
    assert find_near_texts([texts[0], texts[0] + " ab"], np.array([0, 1])).tolist() == [[0, 1]]


def test_a_crowd_of_one_text_is_linked_by_few_pairs():
    n = 20_000
    pairs = find_near_texts(["one and the same"] * n, np.arange(n) % 2)
    assert len(pairs) < 2 * n
    assert len(np.unique(pairs)) == n
    assert len(np.unique(join_sets(np.full(n, -1), pairs))) == 1


def test_negations_around_a_copy_are_no_copy():
    words = [f"{a}{b}" for a in "abcdef" for b in "uvwxyz"]
    assert is_near_copy(words, ["well", *words])
    assert not is_near_copy(words, ["not", *words])
    assert not is_near_copy(words, [*words, "7"])
    assert not is_near_copy(words, ["boat", *words[1:], "never"])
