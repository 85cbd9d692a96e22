"""JPEG, PNG, WebP and GIF files -> upright RGB pixels, under limits against decompression bombs.

Pillow's plugin classes are used one by one, not through `PIL.Image.open`: a file can then reach no
other decoder, and the pixel limit is ours, per loader, instead of a global of the process.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image as pillow
from PIL.ExifTags import Base as ExifTag
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from lookhear.media.base import MediaError, MediaIO, MediaWithBytes, check_bytes
from lookhear.media.signatures import describe

__all__ = ["Image", "ImageMediaIO", "Pixels"]

Pixels = NDArray[np.uint8]
Color = tuple[int, int, int]

EXPECTED = "expected a JPEG, PNG, WebP or GIF image"
WHITE: Color = (255, 255, 255)
MAX_PIXELS = 1 << 26  # 8192 x 8192: 200 MB as RGB
# No model takes a thread. In a conversation it would make all later questions fail as well.
MAX_RATIO = 200
# A progressive JPEG may repaint all its pixels in every one of thousands of tiny scans.
MAX_JPEG_SCANS = 64
START_OF_SCAN = b"\xff\xda"

PLUGINS: dict[bytes, type[ImageFile]] = {
    b"\xff\xd8\xff": JpegImageFile,
    b"\x89PNG\r\n\x1a\n": PngImageFile,
    b"RIFF": WebPImageFile,
    b"GIF87a": GifImageFile,
    b"GIF89a": GifImageFile,
}
# What Pillow raises for damaged files. The last five come from its parsers' assumptions.
DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    struct.error,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    AssertionError,
)
# EXIF orientation, the value -> what makes the picture upright. CIPA DC-008 (EXIF 2.32), 4.6.4 A.
UPRIGHT = {
    2: pillow.Transpose.FLIP_LEFT_RIGHT,
    3: pillow.Transpose.ROTATE_180,
    4: pillow.Transpose.FLIP_TOP_BOTTOM,
    5: pillow.Transpose.TRANSPOSE,
    6: pillow.Transpose.ROTATE_270,
    7: pillow.Transpose.TRANSVERSE,
    8: pillow.Transpose.ROTATE_90,
}


@dataclass(frozen=True, eq=False)
class Image:
    """pixels: [height, width, 3] uint8 RGB, upright; `format` names how it was stored ("jpeg")."""

    pixels: Pixels
    format: str


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageMediaIO(MediaIO[Image]):
    """Images under the given limits; of an animation the first frame.

    What is transparent shows `background` (red, green, blue; 0 to 255). Grey, palette, CMYK and
    16-bit images become 8-bit RGB. Colour profiles are not applied, as the models' own
    preprocessors do not.
    """

    background: Color = WHITE
    max_pixels: int = MAX_PIXELS
    max_bytes: int | None = None

    def __post_init__(self) -> None:
        background = self.background
        if len(background) != 3 or not all(0 <= value <= 255 for value in background):
            raise ValueError(f"background: expected three integers 0 to 255; got {background!r}")

    def load_bytes(self, data: bytes) -> MediaWithBytes[Image]:
        check_bytes(len(data), self.max_bytes)
        return MediaWithBytes(self.decode(data), data)

    def decode(self, data: bytes) -> Image:
        """Raises MediaError: "empty", "not_image", "too_large", "unsupported", "truncated"."""
        if not data:
            raise MediaError("empty", f"{EXPECTED}; got 0 bytes")
        name, _ = describe(data[:512])
        plugin = plugin_of(data)
        if plugin is None:
            raise MediaError("not_image", f"{EXPECTED}; got {name}")
        try:
            if plugin is WebPImageFile and (size := webp_size(data)):
                self.check_size(size)  # its decoder takes the memory when it is opened
            image = plugin(io.BytesIO(data))
            self.check_size(image.size)  # from the header: nothing is decoded yet
            if plugin is JpegImageFile:
                check_scans(data)
            image.load()
            orientation = orientation_of(image)
            rgb = to_rgb(image, self.background)
        except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
            raise MediaError("too_large", f"{self.expected_size()}; got more: {error}") from error
        except DAMAGE as error:
            why = f": {error}" if str(error) else ""
            raise MediaError(
                "truncated", f"expected a complete image; got {name}, truncated or damaged{why}"
            ) from error
        if orientation in UPRIGHT:
            rgb = rgb.transpose(UPRIGHT[orientation])
        assert image.format is not None
        return Image(np.array(rgb, dtype=np.uint8), image.format.lower())

    def check_size(self, size: tuple[int, int]) -> None:
        width, height = size
        if width * height > self.max_pixels:
            raise MediaError("too_large", f"{self.expected_size()}; got {width} x {height}")
        if max(size) > MAX_RATIO * min(size):
            raise MediaError(
                "unsupported",
                f"expected an image whose sides differ at most {MAX_RATIO} times; "
                f"got {width} x {height}",
            )

    def expected_size(self) -> str:
        return f"expected an image of at most {self.max_pixels} pixels"


def plugin_of(data: bytes) -> type[ImageFile] | None:
    for magic, plugin in PLUGINS.items():
        if data.startswith(magic) and (magic != b"RIFF" or data[8:12] == b"WEBP"):
            return plugin
    return None


def to_rgb(image: pillow.Image, background: Color) -> pillow.Image:
    if image.mode.startswith("I"):
        # 16-bit grey. Pillow's own conversion clips at 255 instead of scaling.
        grey = np.clip(np.asarray(image), 0, 65535).astype(np.uint16) >> 8
        return pillow.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        below = pillow.new("RGBA", image.size, (*background, 255))
        return pillow.alpha_composite(below, image.convert("RGBA")).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def orientation_of(image: pillow.Image) -> int:
    """1 to 8; 1 (upright) if the file states none or its EXIF block is damaged."""
    try:
        value = image.getexif().get(ExifTag.Orientation, 1)
    except DAMAGE:
        return 1
    return value if isinstance(value, int) else 1


def webp_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) of the canvas by the header; None if it is cut. RFC 9649, sections 2.5-2.7.

    Pillow checks it only against its own limit, and old versions after taking the memory.
    """
    chunk, body = data[12:16], data[20:30]
    if len(body) < 10:
        return None
    if chunk == b"VP8X":
        return int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1
    if chunk == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack("<HH", body[6:10])
    return width & 0x3FFF, height & 0x3FFF


def check_scans(data: bytes) -> None:
    """Inside compressed JPEG data 0xFF is always followed by 0 or a restart marker."""
    scans = data.count(START_OF_SCAN)
    if scans > MAX_JPEG_SCANS:
        raise MediaError(
            "too_large", f"expected a JPEG image of at most {MAX_JPEG_SCANS} scans; got {scans}"
        )
