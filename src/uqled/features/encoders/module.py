"""Any `torch.nn.Module` that takes normalised images [n,3,H,W] and returns features."""

from __future__ import annotations

import copy
from typing import Any

from uqled.features.encoders import Encoder, EncoderOptions
from uqled.features.image_encoder import check_module, hash_weights, make_image_encoder


def make_encoder(network: Any, options: EncoderOptions) -> Encoder:
    """The module as it is; images keep their size unless the options say another."""
    network = copy.deepcopy(check_module(network))
    return make_image_encoder(network, hash_weights(network), options, image_size=None)
