"""Data of the shapes that go wrong, and cleanlab's own answer."""

from __future__ import annotations

import warnings

import numpy as np
from cleanlab.filter import find_label_issues as cleanlab_issues
from hypothesis import strategies as st


def theirs(labels, probs, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about small classes
        return cleanlab_issues(labels, probs, n_jobs=1, **options)


@st.composite
def data_sets(draw):
    """Labels and probabilities of the shapes that go wrong."""
    K = draw(st.integers(2, 8))
    N = draw(st.integers(2, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    present = draw(st.sampled_from(["all classes", "two classes", "one sample of each"]))
    labels = rng.integers(0, 2 if present == "two classes" else K, N)
    if present == "one sample of each":
        labels = rng.permutation(K)
        N = K
    labels[:2] = rng.permutation(min(K, 2 if present == "two classes" else K))[:2]
    logits = rng.normal(size=(N, K)) * draw(st.sampled_from([0.5, 2.0, 8.0]))
    logits[np.arange(N), labels] += draw(st.sampled_from([0.0, 1.0, 3.0]))
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    shape = draw(st.sampled_from(["free", "zeros and ones", "equal rows", "tenths"]))
    if shape == "zeros and ones":
        probs = np.eye(K)[probs.argmax(axis=1)]
    elif shape == "equal rows":
        probs[:] = probs[0]
    elif shape == "tenths":
        probs = np.array([rng.multinomial(10, p / p.sum()) for p in probs]) / 10
    return labels, probs
