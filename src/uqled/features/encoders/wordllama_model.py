"""`wordllama`: means of static word vectors, less accurate than `minilm` and much quicker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.features.encoders import Encoder, EncoderOptions, import_package


@dataclass(frozen=True)
class WordLlama:
    """Vectors [n,256] of length 1."""

    model: Any
    key: str
    kind = "texts"
    batch_size = 1_024

    def encode(self, batch: Any) -> NDArray[np.float32]:
        # A text without any known word has no direction.
        texts = [str(text) or " " for text in batch]
        return np.nan_to_num(np.asarray(self.model.embed(texts, norm=True), np.float32))


def make_encoder(name: str, options: EncoderOptions) -> Encoder:  # noqa: ARG001
    package = import_package("wordllama", encoder=name, install="wordllama")
    # Its own folder as its cache: it has the tokenizer under another name than it looks for.
    folder = Path(package.__file__).parent
    model = package.WordLlama.load(cache_dir=folder, disable_download=True)
    return WordLlama(model, f"wordllama {package.__version__}")
