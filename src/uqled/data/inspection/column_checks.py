"""Checks of a table's columns: columns that leak the label, columns that name groups."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.data.dataset import Dataset, draw_stratified
from uqled.data.inspection.findings import Finding
from uqled.data.tables.column_roles import is_id_name

_SAMPLE = 5_000  # rows used to test how well a column predicts the label
_LEAK_ACCURACY = 0.995
_FORM_SHARE = 0.9  # of the labels that a copy of the label agrees with, if some are wrong
_MISSING_SHARE = 0.05  # of the values that such a copy may lack
_FEW_ROWS = 30
_GROUP_NAME = re.compile(
    r"(^|[_\s.-])(patient|subject|participant|person|user|customer|client|session|speaker|author|"
    r"household|family|device|sensor|group|case|document|video|site)s?([_\s.-]|$)",
    re.IGNORECASE,
)
_CODE = re.compile(r"[A-Za-z]{1,10}[-_ ]?\d{1,12}")
_MANY_COLUMNS = 500  # beyond which columns are not tested one by one


def check_columns(data: Dataset) -> list[Finding]:
    features: Any = data.features
    if not hasattr(features, "columns") or len(data) < _FEW_ROWS:
        return []
    findings, leaks = [], _find_leaks(data, features)
    if leaks:
        names = ", ".join(map(repr, leaks))
        word = "column predicts" if len(leaks) == 1 else "columns each predict"
        findings.append(
            Finding(
                "leak",
                "warning",
                f"the {word} the label alone: {names}",
                f"If it is another form of the label, leave it out: --columns {leaks[0]}=ignore",
            )
        )
    for name, share in _find_other_forms(data, features, leaks):
        findings.append(
            Finding(
                "leak",
                "warning",
                f"column {name!r} has one value per class, which agrees with {share:.0%} of the "
                "labels",
                f"If it is another form of the label, leave it out: --columns {name}=ignore",
            )
        )
    for column in data.columns:
        if column.is_used and column.name in features.columns and _names_groups(data, column.name):
            findings.append(
                Finding(
                    "groups",
                    "warning",
                    f"column {column.name!r} looks like a group that several rows share",
                    f"Rows of one group must not help to predict each other: --group {column.name}",
                )
            )
    return findings


def _names_groups(data: Dataset, name: str) -> bool:
    values = data.inputs[name]
    repeats = len(values) / max(values.nunique(), 1)
    is_group = is_id_name(name) or _GROUP_NAME.search(name) or _holds_codes(values)
    return bool(is_group) and 1.5 < repeats < len(values) / 20 and data.groups is None


def _holds_codes(values: Any) -> bool:
    """Whether all values look like P014 or user-7: a few letters and a number."""
    unique = values.dropna().astype(str).unique()[:_SAMPLE]
    return len(unique) > 1 and all(_CODE.fullmatch(text) for text in unique)


def _find_leaks(data: Dataset, features: Any) -> list[str]:
    """Find columns from which a cross-validated tree predicts nearly every label."""
    from sklearn.model_selection import cross_val_predict
    from sklearn.tree import DecisionTreeClassifier

    if features.shape[1] > _MANY_COLUMNS:
        return []
    codes = data.labels.codes
    counts = np.bincount(codes)
    usable = np.flatnonzero(counts[codes] >= 3)
    if len(np.unique(codes[usable])) < 2:
        return []
    if len(usable) > _SAMPLE:
        usable = usable[draw_stratified(codes[usable], _SAMPLE, seed=0)]
        usable = usable[np.bincount(codes[usable])[codes[usable]] >= 3]
    majority = np.bincount(codes[usable]).max() / len(usable)
    tree = DecisionTreeClassifier(min_samples_leaf=2, random_state=0)
    leaks = []
    for name in features.columns:
        values = _encode(features[name].iloc[usable])
        accuracy = np.mean(cross_val_predict(tree, values, codes[usable], cv=3) == codes[usable])
        if accuracy >= _LEAK_ACCURACY and accuracy > (1 + majority) / 2:
            leaks.append(str(name))
    return leaks


def _find_other_forms(data: Dataset, features: Any, leaks: list[str]) -> list[tuple[str, float]]:
    """Find columns with one value per class that agree with most labels: (column, share).

    If some labels are wrong, a copy of the label does not predict all of them.
    """
    import pandas as pd

    codes = np.unique(data.labels.codes, return_inverse=True)[1]
    K, n = int(codes.max()) + 1, len(codes)
    majority = np.bincount(codes).max() / n
    forms = []
    for name in features.columns:
        values, unique = pd.factorize(features[name])
        if str(name) in leaks or len(unique) != K or np.mean(values < 0) > _MISSING_SHARE:
            continue
        is_known = values >= 0
        counts = np.bincount(values[is_known] * K + codes[is_known], minlength=K * K).reshape(K, K)
        share = float(counts.max(axis=1).sum() / is_known.sum())
        is_paired = len(set(counts.argmax(axis=1))) == K
        if is_paired and share >= _FORM_SHARE and share > (1 + majority) / 2:
            forms.append((str(name), share))
    return forms


def _encode(values: Any) -> NDArray[np.float64]:
    """[n,1] the values as numbers; categories are numbered."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values.dtype):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        finite = np.where(np.isfinite(numbers), numbers, -1e9)
        return np.clip(finite, -3e38, 3e38).reshape(-1, 1)
    return np.asarray(pd.factorize(values.astype(object))[0], np.float64).reshape(-1, 1)
