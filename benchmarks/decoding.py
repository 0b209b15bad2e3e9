"""JPEGs from bytes in memory to one array [N,H,W,3]: the loader beside decoders on PyPI.

    python benchmarks/decoding.py --data ../shared/data    a few minutes on two cores
    python benchmarks/decoding.py --small                  a few seconds, to try it out

Whichever of these is installed takes part: simplejpeg, opencv-python-headless, imagecodecs,
kornia-rs, pyvips[binary], mlx-data, pywuffs; Pillow always does. Each decodes into the same kind
of array, in blocks of 64 images that go to as many threads as ours has. All take turns, so that
whatever else the machine does falls on all of them. Ours is what `load` runs: besides decoding it
checks every image's size and rotation.

A peer's time depends on where its own small arrays happen to lie: libjpeg-turbo is up to a third
slower where they begin on a boundary of 32 bytes, and that stays so for a whole run. Run it twice
before you make much of a small difference.

Without `--data` (a folder with `cifar10/test.parquet` and `tiny-imagenet-20.zip`) the small images
are made.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import machine
from uqled.data import load
from uqled.data.image_cache import EncodedImages, decode_images
from uqled.engines.local import count_cores

Decode = Callable[[bytes], Any]
BLOCK = 64


def decode_with_pillow(data: bytes) -> Any:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def list_decoders() -> dict[str, tuple[str, Decode]]:
    """Name: the package on PyPI, and bytes to [H,W,3]."""
    decoders: dict[str, tuple[str, Decode]] = {"Pillow": ("pillow", decode_with_pillow)}
    for name, package, make in (
        ("simplejpeg", "simplejpeg", _make_simplejpeg),
        ("OpenCV", "opencv-python-headless", _make_opencv),
        ("imagecodecs", "imagecodecs", _make_imagecodecs),
        ("kornia-rs (libjpeg-turbo)", "kornia-rs", _make_kornia_turbo),
        ("kornia-rs (zune-jpeg)", "kornia-rs", _make_kornia_zune),
        ("pyvips", "pyvips", _make_pyvips),
        ("mlx-data", "mlx-data", _make_mlx),
        ("pywuffs", "pywuffs", _make_wuffs),
    ):
        try:
            decoders[name] = package, make()
        except ImportError:
            print(f"{name} is not installed")
    return decoders


def _make_simplejpeg() -> Decode:
    import simplejpeg

    return simplejpeg.decode_jpeg


def _make_opencv() -> Decode:
    import cv2

    cv2.setNumThreads(1)
    return lambda data: cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR_RGB)


def _make_imagecodecs() -> Decode:
    import imagecodecs

    return imagecodecs.jpeg8_decode


def _make_kornia_turbo() -> Decode:
    from kornia_rs.io import ImageDecoder

    decoder = ImageDecoder()
    return lambda data: np.asarray(decoder.decode(data))


def _make_kornia_zune() -> Decode:
    from kornia_rs.io import decode_image_jpeg

    return lambda data: np.asarray(decode_image_jpeg(data))


def _make_pyvips() -> Decode:
    import pyvips

    return lambda data: pyvips.Image.new_from_buffer(data, "", access="sequential").numpy()


def _make_mlx() -> Decode:
    from mlx import data as dx

    def decode(data: bytes) -> Any:
        sample = {"image": np.frombuffer(bytearray(data), np.uint8)}
        return dx.buffer_from_vector([sample]).load_image("image", from_memory=True)[0]["image"]

    return decode


def _make_wuffs() -> Decode:
    from pywuffs import ImageDecoderType, PixelFormat
    from pywuffs.aux import ImageDecoder, ImageDecoderConfig

    configuration = ImageDecoderConfig()
    configuration.enabled_decoders = [ImageDecoderType.JPEG]
    configuration.pixel_format = PixelFormat.BGR  # it has no RGB: the channels stay turned
    return lambda data: ImageDecoder(configuration).decode(data).pixbuf


def decode_into_array(decode: Decode, contents: list[bytes], threads: int) -> NDArray[np.uint8]:
    """What a person writes around a decoder."""
    shape = decode(contents[0]).shape
    out = np.empty((len(contents), *shape), np.uint8)

    def block(start: int) -> None:
        for i in range(start, min(start + BLOCK, len(contents))):
            out[i] = decode(contents[i])

    starts = range(0, len(contents), BLOCK)
    if threads == 1:
        for start in starts:
            block(start)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(block, starts))
    return out


def decode_with_loader(contents: list[bytes], threads: int) -> NDArray[np.uint8]:
    encoded_images = EncodedImages(contents.__getitem__, np.arange(len(contents)))
    images = decode_images(encoded_images, cache=False, threads=threads)
    assert not images.unreadable
    return images.images


def make_images(n: int, width: int, height: int) -> list[bytes]:
    """Smooth pictures with some noise, as JPEGs."""
    rng, images = np.random.default_rng(0), []
    for _ in range(n):
        coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), np.uint8)).resize((width, height))
        noisy = np.asarray(coarse) + rng.integers(-15, 16, (height, width, 3))
        file = io.BytesIO()
        Image.fromarray(np.clip(noisy, 0, 255).astype(np.uint8)).save(file, "JPEG", quality=85)
        images.append(file.getvalue())
    return images


def make_image_sets(data: Path | None, n: int) -> dict[str, list[bytes]]:
    sets = {}
    if data is not None and (data / "cifar10" / "test.parquet").exists():
        import pyarrow.parquet as pq

        table = pq.read_table(data / "cifar10" / "test.parquet", columns=["img"]).slice(0, n)
        sets["CIFAR-10, 32 x 32"] = [cell["bytes"] for cell in table["img"].to_pylist()]
    else:
        sets["made, 32 x 32"] = make_images(n, 32, 32)
    if data is not None and (data / "tiny-imagenet-20.zip").exists():
        with zipfile.ZipFile(data / "tiny-imagenet-20.zip") as archive:
            names = [name for name in archive.namelist() if name.endswith(".JPEG")][: n + n // 10]
            contents = [archive.read(name) for name in names]
        colour = [c for c in contents if Image.open(io.BytesIO(c)).mode == "RGB"]
        sets["Tiny-ImageNet, 64 x 64"] = colour[:n]
    else:
        sets["made, 64 x 64"] = make_images(n, 64, 64)
    sets["made, 200 x 150"] = make_images(max(100, n // 10), 200, 150)
    return sets


def measure_decoders(contents: list[bytes], threads: int, repeats: int) -> dict[str, Any]:
    """Seconds of each way, taking turns, and how far its pixels are from Pillow's."""
    decoders = list_decoders()
    ways: dict[str, Callable[[], NDArray[np.uint8]]] = {
        "uqled": lambda: decode_with_loader(contents, threads)
    } | {
        name: lambda decode=decode: decode_into_array(decode, contents, threads)  # type: ignore[misc]
        for name, (_, decode) in decoders.items()
    }
    expected = np.stack([decode_with_pillow(data) for data in contents[:200]]).astype(int)
    result: dict[str, Any] = {}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeats + 1):  # the first one warms up
        for name, way in ways.items():
            seconds = machine.time_repeats(way, 1)
            times[name] += seconds if turn else []
    for name, way in ways.items():
        pixels = way()[:200].astype(int)
        pixels = pixels[..., ::-1] if name == "pywuffs" else pixels
        result[name] = machine.summarize_times(times[name]) | {
            "microseconds_per_image": 1e6
            * machine.summarize_times(times[name])["median"]
            / len(contents),
            "largest_difference_from_pillow": int(np.abs(pixels - expected).max()),
        }
    return result


def measure_loading(contents: list[bytes], repeats: int) -> dict[str, Any]:
    """`load` of a Parquet file of these images: the first time, and from the cache."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    first, again = [], []
    with tempfile.TemporaryDirectory() as folder:
        cells = [{"bytes": data, "path": f"{i}.jpg"} for i, data in enumerate(contents)]
        path = Path(folder) / "images.parquet"
        pq.write_table(pa.table({"image": cells, "label": np.arange(len(cells)) % 2}), path)
        for turn in range(repeats):
            cache = Path(folder) / str(turn)
            first += machine.time_repeats(lambda cache=cache: load(path, cache=cache), 1)
            again += machine.time_repeats(lambda cache=cache: load(path, cache=cache), 1)
    return {
        "first time": machine.summarize_times(first),
        "from the cache": machine.summarize_times(again),
    }


def format_page(result: dict[str, Any]) -> str:
    lines = [
        "# Decoding JPEGs",
        "",
        "Bytes in memory to one uint8 array, microseconds per image: median (least to most) of "
        f"{result['repeats']} turns. Goal: no slower than the fastest decoder on PyPI.",
    ]
    for name, set_result in result["sets"].items():
        for threads, ways in set_result["threads"].items():
            peers = {way: one["median"] for way, one in ways.items() if way != "uqled"}
            fastest = min(peers, key=peers.__getitem__)
            lines += [
                "",
                f"## {name}, {set_result['images']:,} images, {threads} "
                f"thread{'s' if int(threads) > 1 else ''}",
                "",
                "| | µs per image | time beside ours | largest difference from Pillow's pixels |",
                "|---|---|---|---|",
            ]
            for way, one in sorted(ways.items(), key=lambda entry: entry[1]["median"]):
                scale = 1e6 / set_result["images"]
                lines.append(
                    f"| {f'**{way}**' if way == 'uqled' else way} | {scale * one['median']:.1f} "
                    f"({scale * one['least']:.1f} to {scale * one['most']:.1f}) "
                    f"| {one['median'] / ways['uqled']['median']:.2f} "
                    f"| {one['largest_difference_from_pillow']} |"
                )
            ratio = ways["uqled"]["median"] / peers[fastest]
            lines += ["", f"The fastest peer is {fastest}; ours takes {ratio:.2f} of its time."]
        load_result = set_result["load"]
        lines += [
            "",
            f"`load` of all {set_result['images']:,} in a Parquet file: "
            f"{load_result['first time']['median']:.2f} s the first time (reading, hashing, "
            f"decoding, writing the cache), {load_result['from the cache']['median']:.2f} s from "
            "the cache.",
        ]
    return "\n".join([*lines, "", machine.format_machine(result["machine"]), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="Folder with the real images.")
    parser.add_argument("--small", action="store_true", help="Few images, nothing is saved.")
    arguments = parser.parse_args()
    n, repeats = (300, 2) if arguments.small else (10_000, 9)
    packages = sorted({package for package, _ in list_decoders().values()})
    result: dict[str, Any] = {
        "machine": machine.describe_machine(("uqled", "numpy", *packages)),
        "repeats": repeats,
        "sets": {},
    }
    for name, contents in make_image_sets(arguments.data, n).items():
        result["sets"][name] = {
            "images": len(contents),
            "bytes": sum(map(len, contents)),
            "threads": {
                threads: measure_decoders(contents, threads, repeats)
                for threads in sorted({1, count_cores()})
            },
            "load": measure_loading(contents, 3),
        }
    if arguments.small:
        print(format_page(result))
    else:
        machine.save("decoding", result, format_page(result))


if __name__ == "__main__":
    main()
