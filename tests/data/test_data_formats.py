"""Every published form of data: folders, idx, CIFAR, Tiny-ImageNet, npz; the real files too."""

from __future__ import annotations

import os
import pickle
import shutil
import tarfile

import numpy as np
import pytest
from PIL import Image

from format_files import RNG, cifar_folder, idx_bytes, python2_pickle, write_idx
from made_predictions import SHARED_DATA
from uqled import FileError, InputError
from uqled.data import load


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path_factory.mktemp("cache")))


def save_image(path, value=0, size=(8, 8), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = value if mode == "L" else (value, 2 * value, 255 - value)
    Image.new(mode, size, colour).save(path, quality=95)


def class_tree(root, names=("cat", "dog"), n_each=3):
    for c, name in enumerate(names):
        for n in range(n_each):
            save_image(root / name / f"{n}.png", 10 * c + n)
    return root


# --- a folder per class


def test_a_folder_per_class(tmp_path):
    root = class_tree(tmp_path / "pets")
    save_image(root / "dog" / "more" / "deep.JPG", 50)
    (root / "dog" / "notes.txt").write_text("no image")
    (root / ".hidden").mkdir()
    (root / "cat" / ".thumb.png").write_text("hidden")
    data = load(root)
    assert (data.kind, data.name, data.labels.names) == ("images", "pets", ("cat", "dog"))
    assert data.ids.tolist() == [
        *("cat/0.png", "cat/1.png", "cat/2.png", "dog/0.png", "dog/1.png", "dog/2.png"),
        "dog/more/deep.JPG",
    ]
    assert data.labels.codes.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert data.inputs[:6, 0, 0].tolist() == [
        [v, 2 * v, 255 - v] for v in (0, 1, 2, 10, 11, 12)
    ]  # fmt: skip


def test_splits_of_folders(tmp_path):
    class_tree(tmp_path / "train", n_each=3)
    class_tree(tmp_path / "val", n_each=2)
    assert len(load(tmp_path)) == 6
    assert len(load(tmp_path, split="train")) == 6
    data = load(tmp_path, split="validation")
    assert data.ids[0] == "val/cat/0.png"
    assert len(data) == 4
    with pytest.raises(InputError, match=r"split is 'test'.*Choose one of train, val"):
        load(tmp_path, split="test")
    with pytest.raises(InputError, match="has no splits"):
        load(tmp_path / "val", split="test")


def test_classes_may_be_called_like_splits(tmp_path):
    class_tree(tmp_path, ("test", "train"))
    assert load(tmp_path).labels.names == ("test", "train")


def test_a_limit_reads_no_more_than_it_needs(tmp_path):
    root = class_tree(tmp_path, n_each=10)
    data = load(root, limit=4, seed=2)
    assert np.bincount(data.labels.codes).tolist() == [2, 2]
    assert (load(root, limit=4, seed=2).ids == data.ids).all()
    value = 10 * data.labels.codes + [int(name[4]) for name in data.ids]
    assert data.inputs[:, 0, 0, 0].tolist() == value.tolist()


def test_links_are_followed_and_loops_are_not(tmp_path):
    class_tree(tmp_path / "elsewhere", ("dog",))
    root = class_tree(tmp_path / "pets", ("cat",))
    (root / "dog").symlink_to(tmp_path / "elsewhere" / "dog")
    (root / "cat" / "again").symlink_to(root / "cat")
    assert load(root).labels.codes.tolist() == [0, 0, 0, 1, 1, 1]


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match="has no images"):
        load(tmp_path / "empty")
    (tmp_path / "words" / "a").mkdir(parents=True)
    (tmp_path / "words" / "a" / "x.doc").write_text("")
    with pytest.raises(FileError, match=r"end in \.doc"):
        load(tmp_path / "words")
    root = class_tree(tmp_path / "one", ("cat",))
    with pytest.raises(InputError, match=r"the labels of folder '.*one' contain one class only"):
        load(root)
    (root / "dog").mkdir()
    with pytest.raises(InputError, match="one class only"):
        load(root)
    save_image(root / "dog" / "x.png")
    save_image(root / "loose.png")
    with pytest.raises(FileError, match=r"1 images without a label.*loose\.png"):
        load(root)
    with pytest.raises(FileError, match="does not exist"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"label is 'x', but folder .* has no columns"):
        load(root, label="x")
    with pytest.raises(InputError, match="Choose one of images, texts, table"):
        load(root, kind="pictures")
    (root / "loose.png").unlink()
    with pytest.raises(InputError, match=r"kind is 'texts', but folder .* holds images"):
        load(root, kind="texts")


def test_a_zip_of_folders(tmp_path):
    class_tree(tmp_path / "pets")
    shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "pets")
    folder_dataset, dataset = load(tmp_path / "pets"), load(tmp_path / "packed.zip")
    assert dataset.fingerprint == folder_dataset.fingerprint
    assert dataset.ids.tolist() == folder_dataset.ids.tolist()
    (tmp_path / "broken.zip").write_bytes((tmp_path / "packed.zip").read_bytes()[:200])
    with pytest.raises(FileError, match="cannot be read"):
        load(tmp_path / "broken.zip")


def test_a_damaged_member_of_a_zip_is_named(tmp_path):
    class_tree(tmp_path / "pets")
    shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path, "pets")
    content = bytearray((tmp_path / "packed.zip").read_bytes())
    at = content.find(b"cat/1.png") + 20
    content[at : at + 8] = bytes(8)
    (tmp_path / "packed.zip").write_bytes(content)
    with pytest.raises(FileError, match=r"1 unreadable of 6 images[^$]*cat/1\.png: "):
        load(tmp_path / "packed.zip")


@pytest.mark.parametrize("is_packed", [True, False])
def test_idx_files(tmp_path, is_packed):
    images, labels = write_idx(tmp_path / "mnist", "train", 12, is_packed=is_packed)
    test_images, _ = write_idx(tmp_path / "mnist", "t10k", 9, is_packed=is_packed)
    data = load(tmp_path / "mnist")
    assert data.inputs.shape == (12, 6, 5, 1)
    assert (data.inputs[..., 0] == images).all()
    assert (data.labels.codes == labels).all()
    assert data.name == "mnist"
    assert (load(tmp_path / "mnist", split="test").inputs[..., 0] == test_images).all()
    file = next((tmp_path / "mnist").glob("t10k-images*"))
    assert (load(file).inputs[..., 0] == test_images).all()
    assert load(file, image_size=(12, 10)).inputs.shape == (9, 12, 10, 1)


def test_idx_files_that_cannot_be_used(tmp_path):
    write_idx(tmp_path, "train", 12, is_packed=False)
    images, labels = tmp_path / "train-images-idx3-ubyte", tmp_path / "train-labels-idx1-ubyte"
    content = images.read_bytes()
    images.write_bytes(content[:-1])
    with pytest.raises(FileError, match=r"do not fit its shape \[12, 6, 5\]"):
        load(tmp_path)
    images.write_bytes(b"PK" + content[2:])
    with pytest.raises(FileError, match="does not start like an idx file"):
        load(tmp_path)
    images.write_bytes(content)
    labels.write_bytes(idx_bytes(np.zeros(11)))
    with pytest.raises(FileError, match="12 images, and train-labels-idx1-ubyte 11 labels"):
        load(tmp_path)
    labels.unlink()
    with pytest.raises(FileError, match="train-labels-idx1-ubyte' does not exist"):
        load(tmp_path)
    images.rename(tmp_path / "train-images-idx3-ubyte.gz")
    with pytest.raises(FileError, match=r"labels|cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize("kind", [10, 100])
@pytest.mark.parametrize("form", ["folder", "folder around it", "tar.gz"])
def test_cifar(tmp_path, kind, form):
    folder = tmp_path / "in" / ("cifar-10-batches-py" if kind == 10 else "cifar-100-python")
    images, labels = cifar_folder(folder, kind)
    place = folder if form == "folder" else tmp_path / "in"
    if form == "tar.gz":
        place = tmp_path / f"cifar-{kind}-python.tar.gz"
        with tarfile.open(place, "w:gz") as archive:
            archive.add(folder, folder.name)
    data = load(place)
    assert (data.inputs == np.concatenate(images[:-1])).all()
    assert data.labels.codes.tolist() == np.concatenate(labels[:-1]).tolist()
    assert data.labels.names == (
        ("airplane", "bird", "cat") if kind == 10 else ("apple", "bear", "cloud")
    )
    test = load(place, split="test")
    assert (test.inputs == images[-1]).all()
    assert test.ids[1] == ("test/test_batch_1.png" if kind == 10 else "test/test_1.png")


def test_cifar_archives_cannot_run_code(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    cifar_folder(folder, 10)

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "owned"),)

    (folder / "data_batch_3").write_bytes(pickle.dumps({b"data": Evil()}, protocol=2))
    with pytest.raises(FileError, match=r"asks for posix\.mkdir"):
        load(folder)
    assert not (tmp_path / "owned").exists()


def test_cifar_archives_that_cannot_be_used(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    cifar_folder(folder, 10)
    (folder / "data_batch_2").unlink()
    with pytest.raises(FileError, match="lacks data_batch_2"):
        load(folder)
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        archive.add(folder / "data_batch_1", "data_batch_1")
    with pytest.raises(FileError, match="not a CIFAR archive for Python"):
        load(tmp_path / "other.tar.gz")
    for wrong_metadata in ({b"x": 1}, {b"label_names": 3}, [1]):
        cifar_folder(tmp_path / f"cifar-10-{wrong_metadata}", 10)
        (tmp_path / f"cifar-10-{wrong_metadata}" / "batches.meta").write_bytes(
            python2_pickle(wrong_metadata)
        )
        with pytest.raises(FileError, match=r"cannot be read|holds a list"):
            load(tmp_path / f"cifar-10-{wrong_metadata}")
    (tmp_path / "broken.tar.gz").write_bytes(b"\x1f\x8b broken")
    with pytest.raises(FileError, match="cannot be read"):
        load(tmp_path / "broken.tar.gz")


# --- Tiny-ImageNet


def tiny_folder(root):
    for c, wnid in enumerate(["n01", "n02", "n03"]):
        for n in range(4):
            save_image(root / "train" / wnid / "images" / f"{wnid}_{n}.JPEG", 20 * c + n, (64, 64))
        (root / "train" / wnid / f"{wnid}_boxes.txt").write_text("boxes")
    classes_of_files = {"val_0.JPEG": "n02", "val_1.JPEG": "n01", "val_2.JPEG": "n02"}
    for name in classes_of_files:
        save_image(root / "val" / "images" / name, 7, (64, 64), "L")
    rows = [f"{name}\t{wnid}\t0\t0\t62\t62\n" for name, wnid in classes_of_files.items()]
    (root / "val" / "val_annotations.txt").write_text("".join(rows))
    save_image(root / "test" / "images" / "test_0.JPEG")
    (root / "wnids.txt").write_text("n03\nn01\nn02\n")
    (root / "words.txt").write_text("n01\tcrane\nn02\tEgyptian cat, cat\nn03\tcrane\nn04\tother\n")
    return root


@pytest.mark.parametrize("form", ["folder", "folder around it", "zip"])
def test_tiny_imagenet(tmp_path, form):
    root = tiny_folder(tmp_path / "in" / "tiny-imagenet-200")
    place = root if form == "folder" else root.parent
    if form == "zip":
        place = shutil.make_archive(str(tmp_path / "tiny"), "zip", root.parent, root.name)
    data = load(place)
    assert data.inputs.shape == (12, 64, 64, 3)
    assert data.labels.codes.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert data.labels.values.tolist() == ["n01", "n02", "n03"]
    assert data.labels.names == ("crane (n01)", "Egyptian cat", "crane (n03)")
    assert data.ids[5] == "train/n02/images/n02_1.JPEG"
    val = load(place, split="val")
    assert val.ids.tolist() == [f"val/images/val_{n}.JPEG" for n in range(3)]
    assert val.labels.codes.tolist() == [1, 0, 1]
    assert val.labels.names == data.labels.names
    with pytest.raises(InputError, match="Choose one of train, val"):
        load(place, split="test")  # which has no labels


# --- npz


def test_npz_images_and_features(tmp_path):
    images, features = RNG.integers(0, 256, (6, 4, 4), np.uint8), RNG.normal(size=(6, 3))
    labels = np.array(["x", "y"] * 3)
    np.savez(tmp_path / "a.npz", X=images, y=labels)
    data = load(tmp_path / "a.npz")
    assert (data.kind, data.name) == ("images", "a")
    assert (data.inputs[..., 0] == images).all()
    np.savez_compressed(tmp_path / "b.npz", inputs=features, labels=[0, 1] * 3, classes=["p", "q"])
    data = load(tmp_path / "b.npz")
    assert (data.kind, data.labels.names) == ("table", ("p", "q"))
    assert (data.inputs == features).all()
    np.savez(tmp_path / "c.npz", embedding=features, species=labels, y=[0] * 6)
    for inputs in ("embedding", ["embedding"]):
        data = load(tmp_path / "c.npz", inputs=inputs, label="species")
        assert data.labels.names == ("x", "y")


def test_npz_with_splits(tmp_path):
    train, test = RNG.integers(0, 256, (6, 4, 4, 3), np.uint8), np.zeros((2, 4, 4, 3), np.uint8)
    np.savez(tmp_path / "k.npz", x_train=train, y_train=[0, 1] * 3, x_test=test, y_test=[0, 1])
    np.savez(tmp_path / "m.npz", train_images=train, train_labels=np.array([[0], [1]] * 3),
             test_images=test, test_labels=[[0], [1]])  # fmt: skip
    for name in ("k.npz", "m.npz"):
        assert (load(tmp_path / name).inputs == train).all()
        assert len(load(tmp_path / name, split="test")) == 2
        with pytest.raises(InputError, match="Choose one of train, test"):
            load(tmp_path / name, split="val")


def test_npz_that_cannot_be_used(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros((4, 2)), target_=[0, 1, 0, 1])
    with pytest.raises(InputError, match=r"label is 'y', and file .* holds the arrays X, target_"):
        load(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", X=np.zeros((4, 2)), y=np.array([0, None, 1, 1], object))
    with pytest.raises(FileError, match="cannot be read"):
        load(tmp_path / "b.npz")  # objects could be anything: they are not unpickled
    np.savez(tmp_path / "c.npz", X=np.zeros((4, 5, 5, 3)), y=[0, 1, 0, 1])
    with pytest.raises(InputError, match="Images are uint8"):
        load(tmp_path / "c.npz")
    (tmp_path / "d.npz").write_bytes((tmp_path / "c.npz").read_bytes()[:100])
    with pytest.raises(FileError, match="cannot be read"):
        load(tmp_path / "d.npz")
    np.savez(tmp_path / "e.npz", X=np.zeros((4, 2)), y=[0, 1, 0, 1])
    with pytest.raises(InputError, match="image_size is 8, but the data is table"):
        load(tmp_path / "e.npz", image_size=8)
    with pytest.raises(InputError, match="Name one array"):
        load(tmp_path / "e.npz", inputs=["X", "y"])
    (tmp_path / "x.h5").write_bytes(b"")
    with pytest.raises(FileError, match=r"ending '\.h5'"):
        load(tmp_path / "x.h5")


# --- the real files

needs_shared = pytest.mark.skipif(
    not SHARED_DATA.is_dir(), reason=f"real data is not at {SHARED_DATA}"
)


@pytest.mark.slow
@needs_shared
def test_real_mnist():
    data, test = load(SHARED_DATA / "mnist"), load(SHARED_DATA / "mnist", split="test")
    assert data.inputs.shape == (60_000, 28, 28, 1)
    assert test.inputs.shape == (10_000, 28, 28, 1)
    assert data.labels.codes[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]  # as everybody sees
    assert np.bincount(data.labels.codes).tolist() == [
        *(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    ]
    assert round(float(data.inputs.mean()) / 255, 4) == 0.1307  # the mean in everybody's code


@pytest.mark.slow
@needs_shared
def test_real_cifar10_parquet():
    data, test = (
        load(SHARED_DATA / "cifar10", split="train"),
        load(SHARED_DATA / "cifar10" / "test.parquet"),
    )
    assert data.inputs.shape == (50_000, 32, 32, 3)
    assert test.labels.names[:4] == ("airplane", "automobile", "bird", "cat")
    assert np.bincount(test.labels.codes).tolist() == [1000] * 10
    means = data.inputs.reshape(-1, 3).mean(axis=0) / 255
    assert np.abs(means - [0.4914, 0.4822, 0.4465]).max() < 0.002  # of the original pixels
    for i in (0, 4321):
        assert data.ids[i].split("/")[1] == data.labels.names[data.labels.codes[i]]


@pytest.mark.slow
@needs_shared
def test_real_tiny_imagenet():
    data = load(SHARED_DATA / "tiny-imagenet-20.zip")
    val = load(SHARED_DATA / "tiny-imagenet-20.zip", split="val")
    assert data.inputs.shape == (10_000, 64, 64, 3)
    assert np.bincount(data.labels.codes).tolist() == [500] * 20
    assert np.bincount(val.labels.codes).tolist() == [50] * 20
    assert val.labels.names == data.labels.names
    assert "Egyptian cat" in data.labels.names
    assert not data.skipped
