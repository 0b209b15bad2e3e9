"""Targets: every form of labelled data that `uqled.data.load` reads."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, features

from fuzzing.case import Scene, Target, require
from fuzzing.formats import mutate_content
from fuzzing.mutations import damage_tree
from uqled.data import load

CLASSES = ("ant", "bee", "cat")
#: Ending -> (Pillow's name of the format, what Pillow needs for it).
PICTURES = {
    "jpg": ("JPEG", None),
    "png": ("PNG", None),
    "gif": ("GIF", None),
    "bmp": ("BMP", None),
    "tif": ("TIFF", None),
    "webp": ("WEBP", "webp"),
    "ppm": ("PPM", None),
    "tga": ("TGA", None),
    "jp2": ("JPEG2000", "jpg_2000"),
    "avif": ("AVIF", "avif"),
}


def damage_files(rng: Random, folder: Path, paths: Sequence[str]) -> str:
    """Any file below, by what fits its name."""
    mutate = partial(mutate_content, paths=paths)
    return damage_tree(rng, folder, mutate, paths=paths)


def make_picture(seed: int, side: int = 12, mode: str = "RGB") -> Image.Image:
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (3, 3, 3), np.uint8)).resize((side, side))
    return coarse.convert(mode)


def encode(picture: Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


def make_frame(rows: int = 30) -> pd.DataFrame:
    at = np.arange(rows)
    return pd.DataFrame(
        {
            "id": [f"s{i}" for i in at],
            "length": at * 0.37 % 5,
            "width": at * 1.7 % 3,
            "label": np.array(CLASSES)[at % 3],
        }
    )


def check_dataset(data: Any) -> None:
    """What holds for every data set, whatever the bytes were."""
    N, K = len(data.labels.codes), len(data.labels.names)
    require(N > 0 and K > 1, f"{N} samples of {K} classes")
    require(len(data.inputs) == N, "another number of inputs than labels")
    require(len(data.ids) == N, "another number of ids than labels")
    require(data.labels.codes.min() >= 0 and data.labels.codes.max() < K, "a label out of range")
    require(all(isinstance(name, str) for name in data.labels.names), "a class that is no text")
    if data.kind == "images":
        require(data.inputs.dtype == np.uint8 and data.inputs.ndim == 4, "images of another type")
        require(data.inputs.shape[3] in (1, 3), "images of other channels")
    require(isinstance(data.fingerprint, str), "no fingerprint")
    if data.truth is not None:
        require(len(data.truth) == N, "another number of true labels")


def _reader(name: str, **options: Any) -> Callable[[Scene], None]:
    def read(scene: Scene) -> None:
        choice = {"cache": scene.rng.choice((False, str(scene.out / "cache"))), **options}
        check_dataset(load(scene.input / name if name else scene.input, **choice))

    return read


def _target(name: str, make: Callable[[Path], Any], place: str, **options: Any) -> Target:
    cases = options.pop("cases", 60)
    return Target(name, make, damage_files, _reader(place, **options), cases=cases)


# -- tables ----------------------------------------------------------------------------------------


def _make_parquet(folder: Path) -> None:
    frame = make_frame()
    frame.to_parquet(folder / "data.parquet", index=False)


def _make_hub_folder(folder: Path) -> None:
    """Images inside Parquet, and what the hub says of the columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = b'{"info": {"features": {"label": {"names": ["ant", "bee"], "_type": "ClassLabel"}}}}'
    for part in range(2):
        images = [
            {"bytes": encode(make_picture(9 * part + i), "PNG"), "path": f"{part}-{i}.png"}
            for i in range(4)
        ]
        table = pa.table({"image": images, "label": pa.array([0, 1, 0, 1])})
        table = table.replace_schema_metadata({b"huggingface": about})
        pq.write_table(table, folder / f"train-0000{part}-of-00002.parquet")


def _make_table_of_paths(folder: Path) -> None:
    for i in range(6):
        make_picture(i).save(folder / f"{i}.png")
    rows = "".join(f"{i}.png,{CLASSES[i % 3]}\n" for i in range(6))
    (folder / "data.csv").write_text("file,label\n" + rows)


# -- arrays ----------------------------------------------------------------------------------------


def _make_npz(folder: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12, 5, 5, 3)).astype(np.uint8)
    np.savez(folder / "data.npz", images=images, labels=np.arange(12) % 3, class_names=CLASSES)


def make_idx(array: np.ndarray) -> bytes:
    kind = {"uint8": 8, "int32": 12, "float32": 13}[array.dtype.name]
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def _make_idx_folder(folder: Path, ending: str = "") -> None:
    images = np.random.default_rng(0).integers(0, 256, (12, 6, 6)).astype(np.uint8)
    labels = (np.arange(12) % 3).astype(np.uint8)
    for name, array in (("images-idx3", images), ("labels-idx1", labels)):
        content = make_idx(array)
        (folder / f"train-{name}-ubyte{ending}").write_bytes(
            gzip.compress(content, mtime=0) if ending else content
        )


def _cifar_files() -> dict[str, bytes]:
    """CIFAR-100 as it is published, with 6 samples."""
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3072)).astype(np.uint8)
    batch = {
        b"filenames": [f"{i}.png".encode() for i in range(6)],
        b"batch_label": b"training batch 1 of 1",
        b"fine_labels": [0, 1, 2, 0, 1, 2],
        b"coarse_labels": [0] * 6,
        b"data": pixels,
    }
    meta = {b"fine_label_names": [name.encode() for name in CLASSES]}
    content = {"train": batch, "test": batch, "meta": meta}
    return {name: pickle.dumps(one, protocol=2) for name, one in content.items()}


def _make_cifar_folder(folder: Path) -> None:
    for name, content in _cifar_files().items():
        (folder / name).write_bytes(content)


def _make_cifar_archive(folder: Path) -> None:
    with tarfile.open(folder / "cifar-100-python.tar.gz", "w:gz") as archive:
        for name, content in _cifar_files().items():
            about = tarfile.TarInfo(f"cifar-100-python/{name}")
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))


# -- images ----------------------------------------------------------------------------------------


def _make_image_folder(folder: Path, ending: str = "png", form: str = "PNG") -> None:
    for k, name in enumerate(CLASSES[:2]):
        (folder / "data" / name).mkdir(parents=True)
        for i in range(2):
            mode = "P" if form == "GIF" else "RGB"
            content = encode(make_picture(10 * k + i, mode=mode), form)
            (folder / "data" / name / f"{i}.{ending}").write_bytes(content)


def _read_images(scene: Scene) -> None:
    """With and without what cannot be read, at the images' size and at another one."""
    options = {
        "skip_unreadable": scene.rng.random() < 0.5,
        "image_size": scene.rng.choice((None, None, 8)),
    }
    check_dataset(
        load(
            scene.input / "data",
            cache=scene.rng.choice((False, str(scene.out / "cache"))),
            **options,
        )
    )


def _make_odd_images(folder: Path) -> None:
    """More than eight bits, transparent, turned, animated, progressive, with an ICC profile."""
    pictures = folder / "data" / "ant"
    pictures.mkdir(parents=True)
    one = make_picture(1)
    exif = Image.Exif()
    exif[0x0112] = 6
    deep = Image.fromarray((np.arange(144, dtype=np.uint16) * 400).reshape(12, 12))
    deep.save(pictures / "deep.png")
    deep.save(pictures / "deep.tif")
    one.convert("RGBA").save(pictures / "clear.png")
    one.convert("P").save(pictures / "palette.png", transparency=0)
    one.save(pictures / "turned.jpg", exif=exif)
    one.save(pictures / "progressive.jpg", progressive=True)
    one.convert("CMYK").save(pictures / "cmyk.jpg")
    one.convert("L").save(pictures / "grey.jpg", icc_profile=bytes(200))
    one.convert("P").save(
        pictures / "moving.gif", save_all=True, append_images=[make_picture(2, mode="P")]
    )
    one.save(pictures / "packed.tif", compression="tiff_lzw")
    (folder / "data" / "bee").mkdir()
    one.save(folder / "data" / "bee" / "one.png")


def _make_image_zip(folder: Path) -> None:
    with zipfile.ZipFile(folder / "pets.zip", "w") as archive:
        for k, name in enumerate(CLASSES):
            for i in range(2):
                content = encode(make_picture(10 * k + i), "PNG")
                archive.writestr(f"pets/{name}/{i}.png", content)


def _make_tiny_imagenet(folder: Path) -> None:
    root = folder / "tiny"
    names = ["n00000001", "n00000002"]
    for k, name in enumerate(names):
        (root / "train" / name / "images").mkdir(parents=True)
        for i in range(2):
            make_picture(10 * k + i).save(root / "train" / name / "images" / f"{name}_{i}.JPEG")
    (root / "val" / "images").mkdir(parents=True)
    rows = []
    for i in range(4):
        make_picture(50 + i).save(root / "val" / "images" / f"val_{i}.JPEG")
        rows.append(f"val_{i}.JPEG\t{names[i % 2]}\t0\t0\t11\t11\n")
    (root / "val" / "val_annotations.txt").write_text("".join(rows))
    (root / "wnids.txt").write_text("\n".join(names))
    (root / "words.txt").write_text("".join(f"{name}\tthing {name}\n" for name in names))


def _read_tiny_imagenet(scene: Scene) -> None:
    cache = scene.rng.choice((False, str(scene.out / "cache")))
    check_dataset(load(scene.input / "tiny", split=scene.rng.choice(("train", "val")), cache=cache))


def _picture_targets() -> list[Target]:
    targets = []
    for ending, (form, needs) in PICTURES.items():
        if needs is None or features.check(needs):
            make = partial(_make_image_folder, ending=ending, form=form)
            targets.append(Target(f"images-{ending}", make, damage_files, _read_images, cases=70))
    return targets


DATA_TARGETS = [
    _target(
        "csv", lambda f: make_frame().to_csv(f / "data.csv", index=False), "data.csv", cases=150
    ),
    _target("tsv", lambda f: make_frame().to_csv(f / "d.tsv", sep="\t", index=False), "d.tsv"),
    _target(
        "csv-gz",
        lambda f: make_frame().to_csv(f / "data.csv.gz", index=False),
        "data.csv.gz",
        cases=100,
    ),
    _target("csv-paths", _make_table_of_paths, "data.csv", cases=80),
    _target("parquet", _make_parquet, "data.parquet", cases=150),
    _target("parquet-folder", _make_hub_folder, "", cases=100),
    _target("npz", _make_npz, "data.npz", cases=100),
    _target("idx", _make_idx_folder, "", cases=100),
    _target("idx-gz", partial(_make_idx_folder, ending=".gz"), "", cases=80),
    _target("cifar-folder", _make_cifar_folder, "", cases=150),
    _target("cifar-archive", _make_cifar_archive, "cifar-100-python.tar.gz", cases=100),
    _target("image-zip", _make_image_zip, "pets.zip", cases=120),
    Target("images-odd", _make_odd_images, damage_files, _read_images, cases=100),
    Target("tiny-imagenet", _make_tiny_imagenet, damage_files, _read_tiny_imagenet, cases=60),
    *_picture_targets(),
]
