"""Images of every kind come out as they are shown, once decoded and then from the cache."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from pictures import BLACK, BLUE, GREEN, RED, encode, four_corners, photo, source
from uqled import InputError
from uqled.data import images
from uqled.data.image_cache import choose_size, decode_images
from uqled.data.images import ImageHeader, choose_white_level


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UQLED_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "images"


def one(content, **options):
    result = decode_images(source(content), cache=False, **options)
    assert result.unreadable == {}
    return result.images[0]


def test_colour_modes_come_out_as_they_look():
    grey = Image.new("L", (4, 4), 77)
    palette = Image.new("P", (4, 4), 1)
    palette.putpalette([*BLACK, 10, 20, 30])
    holes = palette.copy()
    holes.info["transparency"] = 1
    expected = {
        "grey": (encode(grey), [77]),
        "one bit": (encode(Image.new("1", (4, 4), 1)), [255]),
        "colour": (encode(Image.new("RGB", (4, 4), (1, 2, 3))), [1, 2, 3]),
        "palette": (encode(palette), [10, 20, 30]),
        "palette with a transparent colour": (encode(holes, transparency=1), [255] * 3),
        "half transparent": (
            encode(Image.new("RGBA", (4, 4), (10, 20, 30, 51))),
            [206, 208, 210],
        ),
        "grey and transparent": (encode(Image.new("LA", (4, 4), (10, 0))), [255]),
        "a transparent grey": (encode(grey, transparency=77), [255]),
        "CMYK": (encode(Image.new("CMYK", (4, 4), (255, 0, 255, 0)), "TIFF"), [0, 255, 0]),
        "GIF": (encode(Image.new("RGB", (4, 4), RED), "GIF"), [255, 0, 0]),
        "BMP": (encode(Image.new("RGB", (4, 4), BLUE), "BMP"), [0, 0, 255]),
        "WebP": (
            encode(Image.new("RGB", (4, 4), (9, 8, 7)), "WEBP", lossless=True),
            [9, 8, 7],
        ),
    }
    for name, (content, pixel) in expected.items():
        assert one(content)[1, 1].tolist() == pixel, name


def test_cmyk_jpegs_have_their_colours(decoder):
    picture = four_corners().resize((64, 64)).convert("CMYK")
    result = one(encode(picture, "JPEG", quality=95))
    assert np.abs(result[8, 8].astype(int) - RED).max() < 8, decoder
    assert np.abs(result[8, 56].astype(int) - GREEN).max() < 8
    assert np.abs(result[56, 8].astype(int) - BLUE).max() < 8


def test_grey_among_colours_gets_three_channels(decoder):
    grey, colour = Image.new("L", (8, 8), 77), Image.new("RGB", (8, 8), RED)
    for form in ("PNG", "JPEG"):
        only = decode_images(source(encode(grey, form), encode(grey, form)), cache=False).images
        mixed_images = decode_images(
            source(encode(grey, form), encode(colour, form)), cache=False
        ).images
        assert only.shape == (2, 8, 8, 1), decoder
        assert only[0, 3, 3].tolist() == [77]
        assert mixed_images[0, 3, 3].tolist() == [77] * 3
        assert np.abs(mixed_images[1, 3, 3].astype(int) - RED).max() <= 1


@pytest.mark.parametrize(
    ("values", "pixels"),
    [
        ([0, 65535, 32768], [0, 255, 128]),
        ([0, 4095, 2048], [0, 255, 128]),  # 12 bits in 16
        ([0, 255, 100], [0, 255, 100]),
        ([0, 1000, 512], [0, 249, 128]),  # 10 bits
    ],
)
@pytest.mark.parametrize("form", ["PNG", "TIFF", "PPM"])
def test_sixteen_bits_are_scaled_by_what_the_data_set_uses(values, pixels, form):
    contents = [encode(Image.fromarray(np.full((2, 2), v, np.uint16)), form) for v in values]
    result = decode_images(source(*contents), cache=False).images
    assert result[:, 0, 0, 0].tolist() == pixels


def test_white_levels():
    levels = [choose_white_level(peak) for peak in (0, 0.5, 255, 256, 4096, 65535, 70000)]
    assert levels == [255, 1, 255, 1023, 16383, 65535, 70000]


def test_float_images():
    dark, bright_image = (Image.fromarray(np.full((2, 2), v, np.float32)) for v in (0.2, 1.0))
    result = decode_images(source(encode(dark, "TIFF"), encode(bright_image, "TIFF")), cache=False)
    assert result.images[:, 0, 0, 0].tolist() == [51, 255]
    broken = Image.fromarray(np.full((2, 2), np.nan, np.float32))
    assert "not finite" in decode_images(source(encode(broken, "TIFF")), cache=False).unreadable[0]


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation(form, orientation, decoder):
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encode(four_corners(), form, exif=exif, **({"quality": 95} if form == "JPEG" else {}))
    with Image.open(io.BytesIO(content)) as picture:
        picture.load()
        expected = np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))
    result = one(content)
    assert result.shape == expected.shape, decoder
    assert (result == expected).all()
    # A camera held so that the picture's right side is up (6) is turned clockwise: what was red,
    # the first corner, is then on the top right.
    if orientation == 6:
        assert np.abs(result[8, 12].astype(int) - RED).max() < 40
    small = one(content, size=8)
    assert small.shape == (8, 8, 3)
    assert np.abs(small[1, 1].astype(int) - expected[2, 2]).max() < 60


@pytest.mark.parametrize(
    "options", [{}, {"subsampling": 0}, {"subsampling": 1}, {"progressive": 1}]
)
@pytest.mark.parametrize("size", [(32, 32), (33, 47), (1, 5)])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_jpegs_have_the_same_pixels_as_pillows(options, size, mode):
    content = encode(photo(1, *size).convert(mode), "JPEG", **options)
    with Image.open(io.BytesIO(content)) as picture:
        expected = np.asarray(picture).reshape(*size[::-1], -1)
    assert (one(content) == expected).all()


@pytest.mark.parametrize("size", [(640, 480), (801, 602), (300, 1000)])
@pytest.mark.parametrize("orientation", [1, 6])
def test_large_jpegs_do_not_depend_on_the_decoder(size, orientation, monkeypatch):
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encode(photo(2, *size), "JPEG", exif=exif)
    result = one(content, size=(48, 40))
    monkeypatch.setattr(images, "simplejpeg", None)
    assert (one(content, size=(48, 40)) == result).all()
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(content)))
    plainly = np.asarray(picture.resize((40, 48), Image.Resampling.BILINEAR))
    assert np.abs(result.astype(int) - plainly).mean() < 2


def test_a_broken_exif_part_is_passed_over(decoder):
    jpeg = encode(photo(), "JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x05\x01\x12\0\x03")
    assert (one(jpeg) == one(encode(photo(), "JPEG"))).all(), decoder


def looks(*sizes):
    return [ImageHeader(height, width, True) for height, width in sizes]


def test_the_common_size():
    assert choose_size(looks((20, 30), (20, 30), (99, 99), (8, 8))) == (20, 30)
    assert choose_size(looks((20, 30), (22, 40), (30, 35))) == (22, 35)
    assert choose_size(looks((3000, 4000))) == (168, 224)
    assert choose_size(looks((1, 4000))) == (1, 224)


def test_mixed_sizes_come_out_at_one(decoder):
    pictures = [photo(s, *size) for s, size in enumerate([(32, 24), (64, 48), (32, 24), (10, 90)])]
    result = decode_images(source(*(encode(picture) for picture in pictures)), cache=False).images
    assert result.shape == (4, 24, 32, 3), decoder
    assert (result[0] == np.asarray(pictures[0])).all()
    for row in (1, 3):
        resized = pictures[row].resize((32, 24), Image.Resampling.BILINEAR)
        assert (result[row] == np.asarray(resized)).all()
    assert decode_images(source(encode(pictures[0])), size=7, cache=False).images.shape == (
        1,
        7,
        7,
        3,
    )
    for wrong_size in (0, (3, 4, 5), (3, -1), 2.5):
        with pytest.raises((InputError, TypeError), match=r"image_size|iterable"):
            decode_images(source(encode(pictures[0])), size=wrong_size, cache=False)


def test_threads_do_not_change_the_result():
    contents = [encode(photo(s), "JPEG") for s in range(300)]
    result = [decode_images(source(*contents), cache=False, threads=t).images for t in (1, 4)]
    assert (result[0] == result[1]).all()
    for row in (0, 63, 64, 299):
        assert (result[0][row] == np.asarray(Image.open(io.BytesIO(contents[row])))).all()


def test_jpegs_unlike_the_others(decoder):
    """The short way for equal JPEGs gives what the long way gives."""
    exif = Image.Exif()
    exif[0x0112] = 3
    jpegs = [encode(photo(s), "JPEG") for s in range(5)]
    odd_jpegs = [
        encode(photo(5), "JPEG", exif=exif),
        encode(photo(6, 40, 20), "JPEG"),
        encode(photo(7, 16, 64), "JPEG"),
        encode(photo(8).convert("L"), "JPEG"),
    ]
    turned_image = np.asarray(Image.open(io.BytesIO(odd_jpegs[0])))[::-1, ::-1]
    for order in ([*jpegs, *odd_jpegs], [*odd_jpegs, *jpegs]):
        result = decode_images(source(*order), cache=False).images
        assert result.shape == (9, 32, 32, 3), decoder
        for content, row in zip(order, result, strict=True):
            picture = Image.open(io.BytesIO(content)).convert("RGB")
            resized = np.asarray(picture.resize((32, 32), Image.Resampling.BILINEAR))
            assert (row == (turned_image if content is odd_jpegs[0] else resized)).all()
    few_images = decode_images(
        source(*jpegs[:2], *odd_jpegs[1:3], odd_jpegs[2]), cache=False
    ).images
    assert few_images.shape[1:] == (32, 32, 3)
    assert decode_images(
        source(jpegs[0], odd_jpegs[2], odd_jpegs[2]), cache=False
    ).images.shape == (
        3,
        64,
        16,
        3,
    )
