"""`torchvision:NAME`: any classifier of torchvision, with its own weights or a local file's.

Names of today: `convnext_tiny` (small), `convnext_large` or `vit_l_16` (large).
"""

from __future__ import annotations

from uqled.errors import InputError
from uqled.features.encoders import (
    Encoder,
    EncoderOptions,
    import_package,
    refuse_failed_loading,
)
from uqled.features.encoders.timm_model import announce_download
from uqled.features.image_encoder import (
    describe_pooling,
    drop_classifier,
    hash_weights,
    load_weights,
    make_image_encoder,
)

_USUAL_SIDE = 224


def make_encoder(name: str, options: EncoderOptions) -> Encoder:
    models = import_package(
        "torchvision.models", encoder=f"torchvision:{name}", install="torchvision"
    )
    if name not in models.list_models():
        raise InputError(
            "encoder",
            f"is 'torchvision:{name}'",
            "Choose a name of torchvision.models.list_models()",
        )
    if options.weights is not None:
        network = drop_classifier(models.get_model(name, weights=None))
        load_weights(network, options.weights)
        key = f"torchvision:{name} {hash_weights(network)}{describe_pooling(network)}"
        return make_image_encoder(network, key, options, image_size=_USUAL_SIDE)
    announce_download(f"torchvision:{name}", options)
    weights = models.get_model_weights(name).DEFAULT
    images = weights.transforms()
    with refuse_failed_loading(f"torchvision:{name}"):
        network = drop_classifier(models.get_model(name, weights=weights))
    return make_image_encoder(
        network,
        f"torchvision:{name} {weights}{describe_pooling(network)}",
        options,
        image_size=images.crop_size[0],
        mean=tuple(images.mean),
        std=tuple(images.std),
    )
