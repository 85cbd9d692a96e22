"""What may be fetched, and what is made of answers. No socket is opened here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lookhear.media.base import FetchError, MediaError
from lookhear.media.fetching.rules import Download, FetchPolicy, read_local


def error_of(url: str, **policy: object) -> FetchError:
    with pytest.raises(FetchError) as caught:
        Download(url, FetchPolicy(**policy))  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.0.0.1./",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]:80/",
        "http://[64:ff9b::7f00:1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://0.0.0.0:8000/",
        "http://①②⑦.⓪.⓪.①/",
        "http://１２７。０。０。１/",
    ],
)
def test_private_addresses_in_urls_are_refused(url: str) -> None:
    error = error_of(url)
    assert error.reason == "refused" and "expected a host with public addresses only" in str(error)


def test_only_allowed_hosts() -> None:
    policy = FetchPolicy(allow_hosts=("example.org",))
    assert Download("http://EXAMPLE.org./a", policy).url.host == "example.org"
    error = error_of("http://example.com/", allow_hosts=("example.org",))
    assert str(error) == "expected one of the allowed hosts; got example.com"
    download = Download("http://example.org/", policy)
    with pytest.raises(FetchError, match="expected one of the allowed hosts; got 8.8.8.8"):
        download.response(302, {"location": "http://8.8.8.8/"})


def test_names_with_any_private_address_are_refused() -> None:
    download = Download("http://example.org/", FetchPolicy())
    assert [str(a) for a in download.addresses(["8.8.8.8", "2606:4700::1", "8.8.8.8"])] == [
        "8.8.8.8",
        "2606:4700::1",
    ]
    for resolved in (["8.8.8.8", "127.0.0.1"], ["::1", "8.8.8.8"], ["fe80::1%eth0"], ["nonsense"]):
        with pytest.raises(FetchError) as caught:
            download.addresses(resolved)
        assert caught.value.reason == "refused"
        assert "127.0.0.1" not in str(caught.value)  # nor does it tell what a name resolves to
    with pytest.raises(FetchError) as caught:
        download.addresses([])
    assert caught.value.reason == "unreachable" and caught.value.retryable


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(status: int) -> None:
    download = Download("https://example.org/a/b?c", FetchPolicy())
    assert not download.response(status, {"location": "../d"})
    assert str(download.url) == "https://example.org/d"
    assert not download.response(status, {"location": "//example.com:8443/e#f"})
    assert str(download.url) == "https://example.com:8443/e"
    assert download.response(200, {})


@pytest.mark.parametrize(
    "location, reason, message",
    [
        ("https://127.0.0.1/", "refused", "public addresses only; got 127.0.0.1"),
        ("https://[::1]/", "refused", "public addresses only; got ::1"),
        ("http://example.org/", "refused", "expected https to stay https; got a redirect to http"),
        ("file:///etc/passwd", "bad_url", "expected an http or https URL"),
        ("data:image/png;base64,AAAA", "bad_url", "expected an http or https URL"),
        ("ftp://example.org/", "bad_url", "expected an http or https URL"),
        ("//user@example.org/", "bad_url", "without a user name"),
        ("/a b", "bad_url", "spaces"),
        ("http://[::1", "bad_url", "expected a redirect to a URL"),
        ("", "bad_status", "expected a redirect to name its target"),
    ],
)
def test_redirects_that_are_refused(location: str, reason: str, message: str) -> None:
    download = Download("https://example.org/", FetchPolicy())
    with pytest.raises(FetchError) as caught:
        download.response(302, {"location": location})
    assert caught.value.reason == reason and message in str(caught.value)


def test_the_upgrade_to_https_is_followed() -> None:
    download = Download("http://example.org/a", FetchPolicy())
    assert not download.response(301, {"location": "https://example.org/a"})
    assert download.url.scheme == "https" and download.url.port == 443


def test_redirects_end() -> None:
    download = Download("http://example.org/", FetchPolicy(max_redirects=2))
    for _ in range(2):
        assert not download.response(302, {"location": "/"})
    with pytest.raises(FetchError) as caught:
        download.response(302, {"location": "/"})
    assert caught.value.reason == "too_many_redirects"


@pytest.mark.parametrize(
    "status, reason, retryable",
    [
        (404, "bad_status", False),
        (403, "bad_status", False),
        (206, "bad_status", False),
        (204, "bad_status", False),
        (304, "bad_status", False),
        (429, "unavailable", True),
        (408, "unavailable", True),
        (503, "unavailable", True),
    ],
)
def test_statuses(status: int, reason: str, retryable: bool) -> None:
    with pytest.raises(FetchError, match=f"to answer with 200 OK; got status {status}") as caught:
        Download("http://example.org/", FetchPolicy()).response(status, {})
    assert (caught.value.reason, caught.value.retryable) == (reason, retryable)


def test_bodies_are_bounded_whatever_is_declared() -> None:
    policy = FetchPolicy(max_bytes=10)
    with pytest.raises(FetchError, match="at most 10 bytes; got a declared length of 11"):
        Download("http://a.example/", policy).response(200, {"content-length": "11"})
    download = Download("http://a.example/", policy)
    assert download.response(200, {"content-length": "-1"})
    download.data(b"12345")
    download.data(b"67890")
    assert download.body == b"1234567890"
    with pytest.raises(FetchError, match="expected at most 10 bytes; got more"):
        download.data(b"!")


def test_compressed_answers_are_refused() -> None:
    for encoding in ("gzip", "br", "identity, gzip"):
        with pytest.raises(FetchError) as caught:
            Download("http://a.example/", FetchPolicy()).response(
                200, {"content-encoding": encoding}
            )
        assert caught.value.reason == "unsupported"
    assert Download("http://a.example/", FetchPolicy()).response(
        200, {"content-encoding": "Identity"}
    )


def test_local_files_only_below_the_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "in-secret"
    inside.mkdir()
    outside.mkdir()
    (inside / "a b.png").write_bytes(b"picture")
    (outside / "key").write_bytes(b"secret")
    (inside / "link").symlink_to(outside / "key")
    (inside / "folder").symlink_to(outside)
    (inside / "good").symlink_to(inside / "a b.png")
    (inside / "loop").symlink_to(inside / "loop")
    os.mkfifo(inside / "pipe")
    policy = FetchPolicy(local_folder=inside)
    assert read_local(f"file://{inside}/a%20b.png", policy) == b"picture"
    assert read_local(f"file://localhost{inside}/good", policy) == b"picture"
    for path, reason in (
        (f"{outside}/key", "refused"),
        (f"{outside}/missing", "refused"),  # looks the same
        (f"{inside}/../in-secret/key", "refused"),
        (f"{inside}/%2e%2e/in-secret/key", "refused"),
        (f"{inside}/..%2fin-secret/key", "refused"),
        (f"{inside}/link", "refused"),
        (f"{inside}/folder/key", "refused"),
        (f"{inside}/pipe", "bad_url"),
        (f"{inside}/missing", "bad_url"),
        (f"{inside}", "bad_url"),
        ("/etc/passwd", "refused"),
        ("/dev/zero", "refused"),
    ):
        with pytest.raises(FetchError) as caught:
            read_local(f"file://{path}", policy)
        assert caught.value.reason == reason, path
    with pytest.raises(FetchError) as caught:
        read_local(f"file://{inside}/loop", policy)
    assert caught.value.reason in ("refused", "bad_url")
    for url in (f"file://host{inside}/good", "file:a", f"file://{inside}/good?x", "file:///a%00b"):
        with pytest.raises(FetchError) as caught:
            read_local(url, policy)
        assert caught.value.reason == "bad_url"


def test_local_files_are_off_and_bounded(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    with pytest.raises(FetchError, match="local files are off"):
        read_local(f"file://{tmp_path}/a", FetchPolicy())
    with pytest.raises(MediaError, match="at most 4 bytes; got a larger file"):
        read_local(f"file://{tmp_path}/a", FetchPolicy(local_folder=tmp_path, max_bytes=4))
    assert read_local(f"file://{tmp_path}/a", FetchPolicy(local_folder=tmp_path, max_bytes=5))
