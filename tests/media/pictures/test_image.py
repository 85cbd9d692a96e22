"""Images of every format we promise, whole and broken."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as pillow

from lookhear.media.base import MediaError
from lookhear.media.pictures.image import Image, ImageMediaIO

LOSSY = {"JPEG", "WEBP"}
RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def scene(width: int = 48, height: int = 32) -> np.ndarray:
    """Four coloured quarters: which way is up shows."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[: height // 2, : width // 2] = RED
    pixels[: height // 2, width // 2 :] = GREEN
    pixels[height // 2 :, : width // 2] = BLUE
    return pixels


def stored(image: pillow.Image | np.ndarray, format: str, **options: Any) -> bytes:
    if isinstance(image, np.ndarray):
        image = pillow.fromarray(image)
    buffer = io.BytesIO()
    image.save(buffer, format, **options)
    return buffer.getvalue()


def load(data: bytes, **options: Any) -> Image:
    return ImageMediaIO(**options).load_bytes(data).media


def error_of(data: bytes, **options: Any) -> MediaError:
    with pytest.raises(MediaError) as caught:
        load(data, **options)
    return caught.value


def png(width: int, height: int, *, bits: int = 8, color: int = 2, body: bytes = b"") -> bytes:
    """A PNG by hand: any header, any compressed body."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "GIF"])
def test_every_format_gives_the_same_pixels(format: str) -> None:
    options = {"quality": 95} if format in LOSSY else {}
    image = load(stored(scene(), format, **options))
    assert image.format == format.lower()
    assert image.pixels.shape == (32, 48, 3) and image.pixels.dtype == np.uint8
    assert image.pixels.flags.c_contiguous and image.pixels.flags.writeable
    tolerance = 12 if format in LOSSY else 0
    for y, x in ((4, 4), (4, 40), (28, 4), (28, 40)):
        assert np.abs(image.pixels[y, x].astype(int) - scene()[y, x]).max() <= tolerance


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP"])
def test_exif_orientation_is_applied(format: str, orientation: int) -> None:
    held: dict[int, Callable[[np.ndarray], np.ndarray]] = {  # the inverse of what we do
        1: lambda p: p,
        2: lambda p: p[:, ::-1],
        3: lambda p: p[::-1, ::-1],
        4: lambda p: p[::-1],
        5: lambda p: p.transpose(1, 0, 2),
        6: lambda p: np.rot90(p, 1),
        7: lambda p: np.rot90(p, 2).transpose(1, 0, 2),
        8: lambda p: np.rot90(p, -1),
    }
    exif = pillow.Exif()
    exif[0x0112] = orientation
    options: dict[str, Any] = {"quality": 95} if format in LOSSY else {}
    data = stored(np.ascontiguousarray(held[orientation](scene())), format, exif=exif, **options)
    pixels = load(data).pixels
    assert pixels.shape == (32, 48, 3)
    for y, x in ((4, 4), (4, 40), (28, 4), (28, 40)):
        assert np.abs(pixels[y, x].astype(int) - scene()[y, x]).max() <= 16


def test_a_damaged_exif_block_costs_only_the_orientation() -> None:
    exif = pillow.Exif()
    exif[0x0112] = 6
    data = stored(scene(), "JPEG", exif=exif)
    assert load(data).pixels.shape == (48, 32, 3)
    assert load(data.replace(b"Exif\0\0MM", b"Exif\0\0QQ")).pixels.shape == (32, 48, 3)


@pytest.mark.parametrize("format", ["PNG", "WEBP"])
def test_what_is_transparent_shows_the_background(format: str) -> None:
    rgba = np.zeros((8, 8, 4), np.uint8)
    rgba[:, 4:] = (200, 100, 50, 255)
    data = stored(rgba, format, lossless=True)
    for background in ((255, 255, 255), (0, 0, 0), (10, 20, 30)):
        pixels = load(data, background=background).pixels
        assert tuple(pixels[2, 1]) == background and tuple(pixels[2, 6]) == (200, 100, 50)


def test_transparency_of_palettes_and_keys() -> None:
    keyed = stored(np.full((4, 4, 3), 7, np.uint8), "PNG", transparency=(7, 7, 7))
    assert (load(keyed, background=GREEN).pixels == GREEN).all()
    palette = pillow.new("P", (4, 4), 1)
    palette.putpalette([255, 0, 0, 0, 0, 255])
    for format in ("PNG", "GIF"):
        opaque = stored(palette, format)
        assert (load(opaque, background=GREEN).pixels == BLUE).all()
        clear = stored(palette, format, transparency=1)
        assert (load(clear, background=GREEN).pixels == GREEN).all()


def test_a_bad_background_is_refused() -> None:
    for background in ((256, 0, 0), (-1, 0, 0), (1, 2)):
        with pytest.raises(ValueError, match="background: expected three integers 0 to 255"):
            ImageMediaIO(background=background)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"])
def test_every_mode_becomes_rgb(mode: str) -> None:
    grey = np.full((6, 5), 255, np.uint8)
    if mode == "I;16":
        image = pillow.fromarray(np.full((6, 5), 0x8040, np.uint16))
    else:
        image = pillow.fromarray(grey).convert("RGB").convert(mode)
    pixels = load(stored(image, "JPEG" if mode == "CMYK" else "PNG")).pixels
    assert pixels.shape == (6, 5, 3)
    expected = 0x80 if mode == "I;16" else 255
    assert np.abs(pixels.astype(int) - expected).max() <= (2 if mode == "CMYK" else 0)


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP"])
def test_of_an_animation_the_first_frame(format: str) -> None:
    frames = [pillow.new("RGB", (16, 16), color) for color in (RED, BLUE, GREEN)]
    data = stored(
        frames[0], format, save_all=True, append_images=frames[1:], duration=100, lossless=True
    )
    assert (load(data).pixels == RED).all()


def test_bombs_are_refused_by_their_header() -> None:
    bomb = png(60000, 60000, body=zlib.compress(b"\0" * 1000))
    error = error_of(bomb)
    assert error.reason == "too_large"
    assert str(error) == "expected an image of at most 67108864 pixels; got 60000 x 60000"
    # The same canvas as a GIF, a lossless and an extended WebP.
    gif = bytearray(stored(scene(), "GIF"))
    gif[6:10] = struct.pack("<HH", 60000, 60000)
    lossless = bytearray(stored(scene(), "WEBP", lossless=True))
    lossless[21:25] = struct.pack("<I", 16383 | 16383 << 14)
    exif = pillow.Exif()
    exif[0x0112] = 1
    extended = bytearray(stored(scene(), "WEBP", exif=exif))
    assert extended[12:16] == b"VP8X"
    extended[24:30] = b"\xff\xff\x00" * 2
    lossy = bytearray(stored(scene(), "WEBP"))
    lossy[26:30] = struct.pack("<HH", 16383, 16383)
    for data in (gif, lossless, extended, lossy):
        assert error_of(bytes(data)).reason == "too_large"


def test_a_gif_frame_larger_than_its_screen_counts() -> None:
    gif = bytearray(stored(scene(), "GIF"))
    at = gif.index(b",\0\0\0\0" + struct.pack("<HH", 48, 32))
    gif[at + 5 : at + 9] = struct.pack("<HH", 9000, 9000)
    assert error_of(bytes(gif)).reason == "too_large"
    gif[at + 5 : at + 9] = struct.pack("<HH", 65000, 65000)
    assert error_of(bytes(gif)).reason == "too_large"


def test_limits_are_exact(tmp_path: Path) -> None:
    data = stored(scene(), "PNG")
    assert load(data, max_pixels=48 * 32).pixels.shape == (32, 48, 3)
    error = error_of(data, max_pixels=48 * 32 - 1)
    assert (error.reason, str(error)) == (
        "too_large",
        "expected an image of at most 1535 pixels; got 48 x 32",
    )
    load(data, max_bytes=len(data))
    assert error_of(data, max_bytes=len(data) - 1).reason == "too_large"
    path = tmp_path / "a.png"
    path.write_bytes(data)
    with pytest.raises(MediaError, match=f"expected at most 10 bytes; got {len(data)}"):
        ImageMediaIO(max_bytes=10).load_file(path)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "GIF"])
def test_a_thread_is_no_picture(format: str) -> None:
    """Any model refuses one, in a conversation at every question that follows."""
    assert load(stored(np.zeros((10, 2000, 3), np.uint8), format)).pixels.shape == (10, 2000, 3)
    for shape in ((10, 2001, 3), (2001, 10, 3)):
        error = error_of(stored(np.zeros(shape, np.uint8), format))
        assert error.reason == "unsupported" and "differ at most 200 times" in str(error)


def test_a_jpeg_of_thousands_of_scans_is_refused() -> None:
    data = stored(scene(), "JPEG", progressive=True)
    assert load(data).pixels.shape == (32, 48, 3)
    start = data.rindex(b"\xff\xda")
    scan = data[start:-2]
    error = error_of(data[:-2] + scan * 2000 + data[-2:])
    assert error.reason == "too_large" and "at most 64 scans; got 20" in str(error)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "GIF"])
def test_truncated(format: str) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)
    data = stored(noise, format)
    for part in (0.2, 0.5, 0.9):
        error = error_of(data[: int(len(data) * part)])
        assert error.reason == "truncated"
        assert str(error).startswith("expected a complete image; got a")
        assert "truncated or damaged" in str(error)


@pytest.mark.parametrize(
    "data, reason, message",
    [
        (b"", "empty", "expected a JPEG, PNG, WebP or GIF image; got 0 bytes"),
        (b"a cat, I promise", "not_image", "got text/plain"),
        (b"BMW is a car", "not_image", "got text/plain"),
        (b"<!DOCTYPE html><html>404", "not_image", "got text/html"),
        (b'<svg xmlns="http://www.w3.org/2000/svg">', "not_image", "got an SVG image"),
        (b'<?xml version="1.0"?>\n<svg width="1">', "not_image", "got an SVG image"),
        (b'<?xml version="1.0"?>\n<rss>', "not_image", "got text/plain"),
        (b"%PDF-1.7", "not_image", "got a PDF document"),
        (b"\0\1\2\3", "not_image", "got unknown data beginning with 00 01 02 03"),
        (b"RIFF\0\0\0\0WAVEfmt ", "not_image", "got a WAV or AVI file"),
        (b"\0\0\0\x20ftypisom", "not_image", "got an MP4 file"),
        (b"\0\0\0\x20ftypavif", "not_image", "got an AVIF image"),
        (b"\0\0\0\x20ftypheic", "not_image", "got a HEIC image"),
        (b"\0\0\0\x20ftypmsf1", "not_image", "got a HEIC image"),
        (stored(scene(), "BMP"), "not_image", "got a BMP image"),
        (stored(scene(), "TIFF"), "not_image", "got a TIFF image"),
        (b"\x89PNG\r\n\x1a\n", "truncated", "got a PNG image, truncated or damaged"),
        (png(0, 5), "truncated", "got a PNG image, truncated or damaged"),
        (png(5, 5), "truncated", "got a PNG image, truncated or damaged"),
    ],
)
def test_what_is_no_image(data: bytes, reason: str, message: str) -> None:
    error = error_of(data)
    assert error.reason == reason and message in str(error)


def test_colours_without_a_palette_are_damage() -> None:
    """Pillow asserts that there is one."""
    error = error_of(png(2, 2, color=3, body=zlib.compress(bytes(6))))
    assert error.reason == "truncated"
    assert str(error).endswith("got a PNG image, truncated or damaged")


def test_the_bytes_decide_not_the_name() -> None:
    data = base64.b64encode(stored(scene(), "PNG")).decode()
    assert ImageMediaIO().load_base64("image/jpeg", data).media.format == "png"
    text = base64.b64encode(b"hello").decode()
    with pytest.raises(MediaError, match="got text/plain"):
        ImageMediaIO().load_base64("image/png", text)


def test_equal_bytes_are_equal_images() -> None:
    data = stored(scene(), "PNG")
    assert ImageMediaIO().load_bytes(data) == ImageMediaIO().load_bytes(data)
    assert ImageMediaIO().load_bytes(data) != ImageMediaIO().load_bytes(stored(scene(), "GIF"))


WHOLE = {format: stored(scene(), format) for format in ("JPEG", "PNG", "WEBP", "GIF")}


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_damage_gives_pixels_or_a_media_error(format: str, data: st.DataObject) -> None:
    damaged = bytearray(WHOLE[format])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(1, len(damaged))) :]
    try:
        pixels = load(bytes(damaged), max_pixels=1 << 20).pixels
    except MediaError as error:
        assert error.reason in ("not_image", "truncated", "too_large", "unsupported")
    else:
        assert pixels.ndim == 3 and pixels.shape[2] == 3
