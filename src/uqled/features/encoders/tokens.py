"""The tokens of all-MiniLM-L6-v2, whatever computes the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_MAX_TOKENS = 256  # that the model was trained with


def load_tokenizer(tokenizers: Any, path: Path) -> Any:
    """By the package `tokenizers`: cut to the model's length, padded to the longest of a batch."""
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
    tokenizer.enable_truncation(_MAX_TOKENS)
    tokenizer.enable_padding()
    return tokenizer


def measure_lengths(tokenizer: Any, texts: Any) -> list[int]:
    """The number of tokens of each text."""
    encodings = tokenizer.encode_batch([str(text) for text in texts])
    return [sum(encoding.attention_mask) for encoding in encodings]
