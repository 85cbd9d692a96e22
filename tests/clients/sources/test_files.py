"""Files and URLs that people give."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lookhear.errors import SourceError
from lookhear.sources.files import is_url, media_type, read_medium, require_file


def test_urls_are_told_from_paths() -> None:
    for url in ("http://a/b", "https://a", "data:image/png;base64,AA", "file:///a"):
        assert is_url(url)
    for path in ("a.png", "/a:b/c,d.png", r"C:\a.png", "C:/a.png", "ab:3,4.png", b"http://a"):
        assert not is_url(path)


def test_a_file_is_what_it_begins_with() -> None:
    assert media_type(b"\xff\xd8\xff\xe0", "a.png") == "image/jpeg"
    assert media_type(b"RIFF\0\0\0\0WEBPVP8 ") == "image/webp"
    assert media_type(b"\0\0\0\x20ftypisom") == "video/mp4"
    assert media_type(b"no idea", "clip.mp4") == "video/mp4"
    assert media_type(b"no idea") == "application/octet-stream"


@pytest.mark.parametrize("path", ["a\0b", Path("a\0b")], ids=["text", "path"])
def test_what_no_file_can_be_called(path: str | Path) -> None:
    for look in (require_file, read_medium):
        with pytest.raises(SourceError, match=r"no such file: 'a\\x00b'"):
            look(path)


def test_who_may_not_read_a_file_is_told_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"RIFF")
    require_file(path)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)  # root may read all
    with pytest.raises(SourceError, match=r"cannot read .*a\.wav: not allowed to"):
        require_file(path)
