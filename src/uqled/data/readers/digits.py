"""scikit-learn's 1,797 handwritten digits, 8 x 8, by the name `digits`."""

from __future__ import annotations

import numpy as np

from uqled.data.classes import encode_column
from uqled.data.raw_dataset import RawDataset, make_ids
from uqled.data.reader import Reader, ReadRequest, Source


def _read(_source: Source, _request: ReadRequest) -> RawDataset:
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., None]
    labels = encode_column(digits.target)
    return RawDataset("images", images, labels, make_ids(range(len(images))), truth=labels.codes)


READER = Reader("'digits'", lambda source: source.place == "digits", _read)
