"""`timm:NAME`: any network of timm, with its own weights or those of a local file.

Names of today: `vit_small_patch14_dinov2.lvd142m@224` (small),
`vit_base_patch14_dinov2.lvd142m@224` or `convnext_base.fb_in22k` (large). DINOv2's own side is 518,
five times the work.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from uqled.errors import InputError
from uqled.features.encoders import (
    Encoder,
    EncoderOptions,
    import_package,
    refuse_failed_loading,
)
from uqled.features.image_encoder import hash_weights, load_weights, make_image_encoder


def make_encoder(name: str, options: EncoderOptions) -> Encoder:
    timm = import_package("timm", encoder=f"timm:{name}", install="timm")
    if not timm.is_model(name):
        raise InputError("encoder", f"is 'timm:{name}'", "Choose a name of timm.list_models()")
    if options.weights is None:
        announce_download(f"timm:{name}", options)
    with refuse_failed_loading(f"timm:{name}"):
        network = _create_network(timm, name, options)
    if options.weights is not None:
        load_weights(network, options.weights)
    config = timm.data.resolve_model_data_config(network)
    return make_image_encoder(
        network,
        f"timm:{name} {hash_weights(network) if options.weights else ''}",
        options,
        image_size=config["input_size"][1],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
    )


def _create_network(timm: Any, name: str, options: EncoderOptions) -> Any:
    """Without its classifier, and for images of any side if another side is asked for."""
    create = partial(timm.create_model, name, pretrained=options.weights is None, num_classes=0)
    if options.image_size is None:
        return create()
    try:  # a vision transformer stretches its positions; as it is, it refuses other sides
        return create(dynamic_img_size=True)
    except TypeError:  # what a network without positions says to that option
        return create()


def announce_download(name: str, options: EncoderOptions) -> None:
    if options.offline:
        raise InputError(
            "encoder",
            f"{name!r} may have to download its weights, and offline forbids that",
            f"Name a local file: {name},weights=FILE",
        )
    options.announce(f"{name}: the weights are downloaded unless they were before")
