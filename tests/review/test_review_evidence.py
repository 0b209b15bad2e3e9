"""What the page shows beside a suspect, against the arrays that it comes from."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from review_runs import finish, image_run, open_session
from uqled.data import Dataset


def collect(session, index):
    return session.evidence.collect(index, session.get_list(None))


def test_votes_and_typical_samples(tmp_path):
    session, errors = open_session(image_run(tmp_path))
    predictions = session.predictions
    index = int(errors.ranked[0])
    evidence = collect(session, index)
    votes = np.asarray(predictions.passes)[:, index].argmax(axis=1)
    assert {k: n for k, n, _ in evidence["votes"]} == {
        k: int((votes == k).sum()) for k in set(votes.tolist())
    }
    for side, k in (("given", predictions.labels.codes[index]), ("suggested", errors.best[index])):
        typical = [row["index"] for row in evidence["typical"][side]]
        candidates = np.flatnonzero((predictions.labels.codes == k) & ~errors.mask)
        best = candidates[np.argsort(-predictions.pred_probs[candidates, k], kind="stable")]
        assert typical == best[:3].tolist()
    first = evidence["typical"]["given"][0]["index"]
    session.decisions.decide([(first, "drop", None)], reviewer="ana")
    session.state.refresh()
    again = [row["index"] for row in collect(session, index)["typical"]["given"]]
    assert first not in again  # what was dropped is not typical
    assert len(again) == 3
    session.decisions.close()


def test_neighbours_are_those_kept_with_the_run(tmp_path):
    run = image_run(tmp_path)
    folder = run.path / "neighbours"
    folder.mkdir()
    N = len(run.predictions())
    neighbours = np.stack([np.arange(N) - 1, np.full(N, -1)], axis=1)
    np.save(folder / "given.npy", neighbours)
    np.save(folder / "suggested.npy", np.full((N, 3), N))  # reaches beyond the data: left out
    np.save(folder / "duplicates.npy", np.array([[3, 7], [7, 9]]))
    session, _ = open_session(run)
    session.decisions.decide([(4, "drop", None)], reviewer="bo")
    session.state.refresh()
    evidence = collect(session, 5)
    assert [(row["index"], row["action"]) for row in evidence["neighbours"]["given"]] == [
        (4, "drop")
    ]
    assert evidence["neighbours"]["suggested"] == []
    assert [row["index"] for row in collect(session, 7)["duplicates"]] == [3, 9]
    assert collect(session, 5)["duplicates"] == []
    session.decisions.close()


def test_neighbours_are_of_the_class_that_is_named(tmp_path):
    """The run keeps neighbours of the class that its model suggested; a method may suggest another
    one, and a label that is not flagged none at all."""
    run = image_run(tmp_path)
    about = run.predictions()
    codes, N = about.labels.codes, len(about)
    vectors = np.random.default_rng(0).normal(size=(N, 5)).astype(np.float32)
    folder = run.path / "neighbours"
    folder.mkdir()
    np.save(folder / "vectors.npy", vectors)
    first = np.array([np.flatnonzero(codes == k)[0] for k in range(4)])
    np.save(folder / "suggested.npy", np.repeat(first[:1], N)[:, None])  # all of class 0
    session, errors = open_session(run)
    flagged = errors.ranked[errors.best[errors.ranked] > 0][0]
    fine = np.flatnonzero(errors.best == codes)[0]
    mean = np.asarray(about.passes[:, fine]).mean(axis=0)
    mean[codes[fine]] = -1
    for index, k in ((int(flagged), int(errors.best[flagged])), (int(fine), int(mean.argmax()))):
        evidence = collect(session, index)
        assert evidence["other"] == k
        rows = [row["index"] for row in evidence["neighbours"]["suggested"]]
        members = np.flatnonzero(codes == k)
        distance = ((vectors[members] - vectors[index]) ** 2).sum(axis=1)
        expected = members[np.argsort(distance, kind="stable")[:3]].tolist()
        assert rows == (expected if k else [first[0]])
        assert {row["given"] for row in evidence["typical"]["suggested"]} == {k}
    session.decisions.close()


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00\xff\xff", b"no array"])
def test_damaged_neighbours_are_left_out(tmp_path, content):
    run = image_run(tmp_path)
    (run.path / "neighbours").mkdir()
    (run.path / "neighbours" / "given.npy").write_bytes(content)
    session, _ = open_session(run)
    assert collect(session, 0)["neighbours"] == {"given": [], "suggested": []}
    session.decisions.close()


def test_words_that_speak_for_either_class(tmp_path):
    codes = np.arange(90) % 3
    words = ["sunny warm beach", "rain cold storm", "ball goal team"]
    texts = np.array([f"The {words[k]} number {i}" for i, k in enumerate(codes)], object)
    data = Dataset.from_arrays(texts, np.array(["fair", "foul", "sport"])[codes])
    session, errors = open_session(finish(tmp_path / "run", data), data)
    labels = session.predictions.labels
    index = next(i for i in errors.ranked.tolist() if errors.best[i] == codes[i])
    class_of_word = dict(collect(session, index)["words"])
    mine = words[codes[index]].split()
    assert {class_of_word[word] for word in mine} == {"suggested"}
    assert "the" not in class_of_word
    assert labels.codes[index] != codes[index]
    assert collect(session, index)["columns"] == []
    session.decisions.close()


def test_columns_that_are_unusual_for_the_given_class(tmp_path):
    rng = np.random.default_rng(0)
    codes = np.arange(120) % 2
    frame = pd.DataFrame(
        {
            "width": codes * 10 + rng.normal(size=120),
            "noise": rng.normal(size=120),
            "colour": ["red", "blue"] * 60,
            "shape": ["round", "round", "square", "square"] * 30,
        }
    )
    data = Dataset.from_arrays(frame, np.array(["small", "large"])[codes])
    session, errors = open_session(finish(tmp_path / "run", data), data)
    truth = data.labels.codes
    index = next(i for i in errors.ranked.tolist() if errors.best[i] == truth[i])
    evidence = collect(session, index)
    rows = evidence["columns"]
    assert [row[0] for row in rows] == ["width", "colour"]
    assert rows[0][1] == f"{frame['width'][index]:.4g}"
    has_label = session.predictions.labels.codes == session.predictions.labels.codes[index]
    low, high = np.percentile(frame["width"][has_label], [25, 75])
    assert rows[0][2] == f"{low:.4g} to {high:.4g}"
    same = frame["colour"] == frame["colour"][index]
    shares = [f"{same[has_label].mean():.0%} have it", f"{same[~has_label].mean():.0%} have it"]
    assert rows[1] == ["colour", frame["colour"][index], *shares]
    first_column = evidence["typical"]["suggested"][0]  # what tells the classes apart comes first
    assert [name for name, _ in first_column["preview"]] == ["width", "colour", "noise", "shape"]
    assert first_column["preview"][1] == ["colour", frame["colour"][first_column["index"]]]
    session.decisions.close()
