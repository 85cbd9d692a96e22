"""First bytes of a file -> what it is, in words: what errors say. Names decide nothing."""

from __future__ import annotations

from typing import Literal

__all__ = ["Kind", "describe"]

Kind = Literal["recording", "image", "other"]

# (offset, bytes, name, kind). "recording": audio or video, so a failure to open it means damage.
SIGNATURES: list[tuple[int, bytes, str, Kind]] = [
    (8, b"WEBP", "a WebP image", "image"),
    (0, b"RIFF", "a WAV or AVI file", "recording"),
    (0, b"RF64", "a WAV file", "recording"),
    (0, b"fLaC", "a FLAC file", "recording"),
    (0, b"OggS", "an Ogg file", "recording"),
    (0, b"FORM", "an AIFF file", "recording"),
    (0, b"caff", "a CAF file", "recording"),
    (0, b"ID3", "an MP3 file", "recording"),
    (0, b"\x1a\x45\xdf\xa3", "a WebM or Matroska file", "recording"),
    (4, b"ftypavif", "an AVIF image", "image"),
    (4, b"ftyphei", "a HEIC image", "image"),
    (4, b"ftypmif1", "a HEIC image", "image"),
    (4, b"ftypmsf1", "a HEIC image", "image"),
    (4, b"ftyp", "an MP4 file", "recording"),
    (0, b"\x89PNG", "a PNG image", "image"),
    (0, b"\xff\xd8\xff", "a JPEG image", "image"),
    (0, b"GIF8", "a GIF image", "image"),
    (0, b"BM", "a BMP image", "image"),
    (0, b"II*\0", "a TIFF image", "image"),
    (0, b"MM\0*", "a TIFF image", "image"),
    (0, b"%PDF", "a PDF document", "other"),
    (0, b"PK\x03\x04", "a ZIP archive", "other"),
    (0, b"\x1f\x8b", "a gzip archive", "other"),
]


def describe(head: bytes) -> tuple[str, Kind]:
    """The first bytes of a file (512 are enough) -> what it seems to be, and of which kind."""
    for offset, magic, name, kind in SIGNATURES:
        if head[offset : offset + len(magic)] == magic:
            if magic == b"BM" and head.isascii():
                continue  # two letters that a text may begin with
            return name, kind
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The cut after the first bytes may fall inside a character.
        text = head[: error.start].decode("utf-8") if error.start > len(head) - 4 else "\0"
    begins = text.lstrip("\ufeff \t\r\n").lower()
    if begins.startswith(("<!doctype html", "<html")):
        return "text/html", "other"
    if begins.startswith("<svg") or (begins.startswith(("<?xml", "<!--")) and "<svg" in begins):
        return "an SVG image", "image"
    if text and all(char.isprintable() or char.isspace() for char in text):
        return "text/plain", "other"
    return f"unknown data beginning with {head[:8].hex(' ')}", "other"
