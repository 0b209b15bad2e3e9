"""Pictures made to do harm: endless files, bombs, and formats that run something."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import stat
import struct
import time
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from pictures import classes_of, encode, photo, source
from uqled import FileError
from uqled.data import images, load
from uqled.data.image_cache import decode_images
from uqled.limits import override_limits


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path / "cache"))


def reason(content, **options):
    """Why a picture cannot be read."""
    return decode_images(source(content), cache=False, **options).unreadable.get(0)


def png_chunk(kind, content):
    crc = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)


def png_of(width, height, *chunks):
    """A PNG of a few bytes that claims any size."""
    head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = png_chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + pixels + png_chunk(b"IEND", b"")


def jpeg_of(width, height, **options):
    """A JPEG of a few bytes that claims any size."""
    content = bytearray(encode(Image.new("RGB", (16, 16)), "JPEG", **options))
    at = content.index(b"\xff\xc2" if options.get("progressive") else b"\xff\xc0")
    content[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(content)


# --- what is no file


def test_pipes_devices_sockets_and_links_are_unreadable_images(tmp_path):
    folder = classes_of(tmp_path)
    expected = load(folder)
    os.mkfifo(folder / "1" / "pipe.png")
    (folder / "1" / "zero.png").symlink_to("/dev/zero")
    (folder / "1" / "gone.png").symlink_to(tmp_path / "nowhere")
    (folder / "1" / "loop.png").symlink_to(folder / "1" / "loop.png")
    with socket.socket(socket.AF_UNIX) as server:
        with contextlib.chdir(folder / "1"):  # such names are short
            server.bind("socket.png")
        driver = time.monotonic()
        with pytest.raises(FileError, match="5 unreadable of 11 images") as error_info:
            load(folder)
        data = load(folder, skip_unreadable=True)
        assert time.monotonic() - driver < 5
    lines = [line.strip() for line in str(error_info.value).splitlines()]
    assert "1/pipe.png: is not a regular file" in lines
    assert "1/zero.png: is not a regular file" in lines
    assert "1/gone.png: does not exist" in lines
    assert data.skipped.keys() == {f"1/{n}.png" for n in ("pipe", "zero", "gone", "loop", "socket")}
    assert data.inputs_fingerprint == expected.inputs_fingerprint


def test_a_file_without_rights_is_an_unreadable_image(tmp_path):
    folder = classes_of(tmp_path)
    (folder / "1" / "0.png").chmod(0)
    if os.access(folder / "1" / "0.png", os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(FileError, match=r"1/0.png: cannot be read \(Permission denied\)"):
        load(folder)


def test_encoded_images_are_limited(tmp_path):
    folder = classes_of(tmp_path, [("large.png", b"\0" * 100_000)])
    with override_limits(image_bytes=50_000):
        with pytest.raises(FileError, match=r"1/large\.png: has 100,000 bytes, and at most 50,000"):
            load(folder)
        result = decode_images(
            source(encode(photo()), b"\0" * 50_001), cache=False
        )  # a table's cells
    assert result.unreadable == {
        1: "has 50,001 bytes, and at most 50,000 are read (limit image_bytes)"
    }
    with (folder / "1" / "sparse.png").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FileError, match=r"1/sparse\.png: has 1,099,511,627,776 bytes"):
        load(folder)


# --- what is no picture


def test_postscript_is_not_interpreted(tmp_path, monkeypatch):
    """Pillow hands it to Ghostscript, which is another program with bugs of its own."""
    ran = tmp_path / "ran"
    tool = tmp_path / "gs"
    tool.write_text(f"#!/bin/sh\ntouch {ran}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    content = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 32 32\n%%EndComments\nshowpage\n%%EOF\n"
    folder = classes_of(tmp_path, [("x.png", content)])
    with pytest.raises(FileError, match=r"1/x\.png: is not an image that Pillow can read"):
        load(folder)
    assert not ran.exists()
    assert images.identify_format(content) is None


@pytest.mark.parametrize("form", ["ICO", "PCX", "SGI", "DDS", "PDF", "EPS", "MSP", "QOI"])
def test_formats_of_other_endings_are_not_opened(form):
    mode = "1" if form == "MSP" else "RGB"
    content = encode(photo(width=32, height=32).convert(mode), form)
    assert reason(content) == "is not an image that Pillow can read"


def test_formats_are_identified():
    kinds = {
        *("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "JPEG2000", "PPM", "TGA"),
    } & set(images.list_picture_formats())
    assert len(kinds) > 7
    for kind in kinds:
        content = encode(photo(), kind)
        assert images.identify_format(content) == kind
        assert reason(content) is None
    for content in (b"", b"<html>", b"%!PS", bytes(100), png_of(2**31 - 1, 2**31 - 1)):
        assert images.identify_format(content) is None


# --- pixels


@pytest.mark.parametrize(
    "content",
    [
        png_of(60_000, 60_000),
        jpeg_of(60_000, 60_000),
        jpeg_of(60_000, 60_000, progressive=True),
        encode(Image.new("1", (20_000, 20_000)), "TIFF", compression="group4"),
        b"P6 60000 60000 255\n",
    ],
    ids=["PNG", "JPEG", "progressive", "TIFF", "PPM"],
)
def test_bombs_are_not_decoded(content, decoder):
    assert len(content) < 100_000
    driver = time.monotonic()
    why = reason(content)
    assert time.monotonic() - driver < 2
    assert "pixels, and at most 178,956,970 are read (limit image_pixels)" in why, decoder


def test_pixels_are_counted_before_a_picture_is_turned(decoder):
    exif = Image.Exif()
    exif[0x0112] = 6
    for content in (
        jpeg_of(60_000, 60_000, exif=exif),
        png_of(20_000, 20_000, png_chunk(b"eXIf", exif.tobytes()[6:])),
        png_of(20_000, 20_000, png_chunk(b"tEXt", b"x\0Raw profile type exif")),
    ):
        driver = time.monotonic()
        assert "limit image_pixels" in reason(content), decoder
        assert time.monotonic() - driver < 1


def test_the_limit_of_pixels_holds_in_every_thread(decoder, tmp_path):
    pictures = [photo(n, 40, 40) for n in range(8)]
    contents = [encode(p, form) for p in pictures for form in ("JPEG", "PNG")]
    with override_limits(image_pixels=1599):
        for threads in (1, 4):
            result = decode_images(source(*contents), cache=False, threads=threads)
            assert set(result.unreadable) == set(range(16)), decoder
            assert "1,600 pixels, and at most 1,599" in result.unreadable[0]
    with override_limits(image_pixels=1600):
        assert decode_images(source(*contents), cache=tmp_path, threads=4).unreadable == {}


def test_a_raised_limit_lets_large_pictures_in(monkeypatch):
    """Pillow has a limit of its own, for the whole process."""
    content = encode(photo(0, 300, 300))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with override_limits(image_pixels=89_999):
        assert "90,000 pixels" in reason(content)
    with override_limits(image_pixels=90_000):
        assert reason(content) is None
    assert Image.MAX_IMAGE_PIXELS == 1000


def test_only_the_first_picture_of_many_is_decoded():
    frames = [photo(n) for n in range(50)]
    for form, options in (("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {}), ("TIFF", {})):
        content = encode(frames[0], form, save_all=True, append_images=frames[1:], **options)
        pixels = decode_images(source(content), cache=False).images[0]
        if form != "GIF":  # which has 256 colours
            assert (pixels == np.asarray(frames[0])).all(), form
        assert pixels.shape == (32, 32, 3)


def with_scans(content, n):
    """A progressive JPEG whose last scan, of 31 bytes, comes again and again."""
    start, end = content.rindex(b"\xff\xda"), len(content) - 2
    return content[:end] + content[start:end] * n + content[end:]


def test_jpegs_of_thousands_of_scans_are_refused(decoder):
    slow = encode(Image.new("RGB", (1000, 1000), (200, 30, 40)), "JPEG", progressive=True)
    assert reason(with_scans(slow, 50)) is None, decoder
    driver = time.monotonic()
    assert "scans" in reason(with_scans(slow, 20_000))
    jpegs = [encode(Image.new("RGB", (1000, 1000), (n, 30, 40)), "JPEG") for n in range(3)]
    result = decode_images(source(*jpegs, with_scans(slow, 20_000)), cache=False)
    assert result.unreadable.keys() == {3}
    assert time.monotonic() - driver < 3


def test_what_looks_like_scans_behind_the_end_is_none(decoder):
    """Phones put a film of a second behind the picture, whose bytes are anything."""
    content = encode(photo(), "JPEG")
    result = decode_images(source(content + b"\xff\xda\0\0" * 1000), cache=False)
    assert result.unreadable == {}, decoder
    assert (result.images[0] == np.asarray(Image.open(io.BytesIO(content)))).all()
    preview = encode(photo(), "JPEG", comment=b"\xff\xda" * 500)
    assert reason(preview) is None


# --- what Pillow unpacks beside the pixels


def test_text_and_profiles_of_a_png_are_limited(decoder):
    bomb = zlib.compress(bytes(2**26))
    assert reason(png_of(8, 8, png_chunk(b"zTXt", b"x\0\0" + zlib.compress(b"text")))) is None
    for kind, head in ((b"zTXt", b"x\0\0"), (b"iTXt", b"x\0\1\0\0\0"), (b"iCCP", b"x\0\0")):
        content = png_of(8, 8, png_chunk(kind, head + bomb))
        why = reason(content)
        assert why is not None, (decoder, kind)
    chunks = [
        png_chunk(b"zTXt", b"%d\0\0" % n + zlib.compress(bytes(2**20 - 1))) for n in range(100)
    ]
    assert reason(png_of(8, 8, *chunks)) is not None
    assert PngImagePlugin.MAX_TEXT_CHUNK <= 2**20


def test_a_tiff_directory_that_claims_its_file_many_times():
    """65,000 entries, each with the whole file as its value: gigabytes of 2 MB."""
    body = bytes(200_000)
    entries = [(256, 3, 1, 8), (257, 3, 1, 8), (258, 3, 1, 8), (262, 3, 1, 1), (273, 4, 1, 8)]
    entries += [(1000 + n, 7, len(body), 8) for n in range(5000)]
    directory = struct.pack("<H", len(entries))
    directory += b"".join(struct.pack("<HHII", *entry) for entry in entries) + bytes(4)
    content = b"II*\0" + struct.pack("<I", 8 + len(body)) + body + directory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        driver = time.monotonic()
        decode_images(source(content), cache=False)
        assert time.monotonic() - driver < 5


def test_damaged_pictures_are_named_or_decoded(decoder):
    """Mutations of every format: a reason or pixels of the right shape, and no other error."""
    rng = np.random.default_rng(0)
    for kind in images.list_picture_formats():
        sound = encode(photo(), kind)
        mutants = []
        for n in range(60):
            content = bytearray(sound)
            for at in rng.integers(0, min(len(content), 60 if n % 2 else 10**9), 1 + n % 3):
                content[at] = rng.integers(256)
            mutants.append(bytes(content[: rng.integers(len(content))] if n % 7 == 0 else content))
        driver = time.monotonic()
        with override_limits(image_pixels=2**20):
            result = decode_images(source(*mutants), cache=False, size=16)
        assert len(result.images) + len(result.unreadable) == 60, decoder
        assert all(why and "\n" not in why for why in result.unreadable.values())
        assert time.monotonic() - driver < 10, kind
