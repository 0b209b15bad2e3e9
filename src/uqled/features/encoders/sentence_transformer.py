"""`sentence-transformers:NAME`: any model of that library, from its hub or a local folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.errors import InputError
from uqled.features.encoders import (
    Encoder,
    EncoderOptions,
    import_package,
    refuse_failed_loading,
)
from uqled.features.image_encoder import hash_weights


@dataclass(frozen=True)
class SentenceTransformerEncoder:
    """Vectors as the model gives them."""

    model: Any
    key: str
    kind = "texts"
    batch_size = 64

    def encode(self, batch: Any) -> NDArray[np.float32]:
        texts = [str(text) for text in batch]
        vectors = self.model.encode(texts, show_progress_bar=False, convert_to_numpy=True)
        return np.asarray(vectors, np.float32)


def make_encoder(name: str, options: EncoderOptions) -> Encoder:
    full = f"sentence-transformers:{name}"
    library = import_package("sentence_transformers", encoder=full, install="sentence-transformers")
    if not Path(name).exists():
        if options.offline:
            raise InputError(
                "encoder",
                f"{full!r} may have to be downloaded, and offline forbids that",
                "Name a local folder",
            )
        options.announce(f"{full}: the model is downloaded unless it was before")
    from uqled.models.hardware import check_device  # PyTorch is slow to load

    check_device(options.device)
    device = None if options.device == "auto" else options.device
    with refuse_failed_loading(full):
        model = library.SentenceTransformer(name, device=device, local_files_only=options.offline)
    return SentenceTransformerEncoder(model, f"{full} {hash_weights(model)}")
