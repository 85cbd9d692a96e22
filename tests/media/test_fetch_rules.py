"""Which URLs and addresses are allowed, and what is made of answers. No socket is opened here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from media.addresses import is_allowed, parse_address, parse_network
from media.base import FetchError, MediaError
from media.fetch import Download, FetchPolicy, read_local
from media.urls import HttpUrl, parse_data_url, parse_http_url, scheme_of

PUBLIC = [
    "8.8.8.8",
    "1.1.1.1",
    "172.32.0.1",
    "192.167.255.255",
    "100.128.0.1",
    "2606:4700::1111",
    "2001:4860:4860::8888",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
]
NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:a9fe:a9fe",
    "::ffff:0:127.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses(text: str) -> None:
    address = parse_address(text)
    assert address is not None and is_allowed(address)


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_addresses_that_are_not_public(text: str) -> None:
    address = parse_address(text)
    assert address is not None and not is_allowed(address)


def test_networks_can_be_allowed() -> None:
    networks = (parse_network("127.0.0.1/32"), parse_network("fd00::/8"))
    for text in ("127.0.0.1", "::ffff:127.0.0.1", "fd12::1"):
        address = parse_address(text)
        assert address is not None and is_allowed(address, networks)
    for text in ("127.0.0.2", "10.0.0.1", "fe80::1"):
        address = parse_address(text)
        assert address is not None and not is_allowed(address, networks)


@settings(max_examples=60, deadline=None)
@given(st.ip_addresses(v=4))
def test_writing_an_ipv4_address_as_ipv6_changes_nothing(address: object) -> None:
    plain = parse_address(str(address))
    assert plain is not None
    for prefix in ("::ffff:", "64:ff9b::"):
        longer = parse_address(f"{prefix}{address}")
        assert longer is not None and is_allowed(longer) == is_allowed(plain)


# URLs.


@pytest.mark.parametrize(
    "url, expected",
    [
        ("http://example.org", HttpUrl("http", "example.org", 80, "/")),
        (
            "HTTPS://Example.ORG.:8443/a%20b?c=d#e",
            HttpUrl("https", "example.org", 8443, "/a%20b?c=d"),
        ),
        (
            "https://bücher.example/ä?ö",
            HttpUrl("https", "xn--bcher-kva.example", 443, "/%C3%A4?%C3%B6"),
        ),
        ("http://8.8.8.8/x", HttpUrl("http", "8.8.8.8", 80, "/x")),
        ("http://[2606:4700:0::1111]:81", HttpUrl("http", "2606:4700::1111", 81, "/")),
        ("http://a_b.example", HttpUrl("http", "a_b.example", 80, "/")),
        ("http://example.org?x", HttpUrl("http", "example.org", 80, "/?x")),
    ],
)
def test_urls_are_normal_forms(url: str, expected: HttpUrl) -> None:
    assert parse_http_url(url) == expected
    assert parse_http_url(str(expected)) == expected


@pytest.mark.parametrize(
    "url, expected",
    [
        ("ftp://example.org/a", "an http or https URL"),
        ("gopher://127.0.0.1:6379/_x", "an http or https URL"),
        ("//example.org/a", "an http or https URL"),
        ("http://user@127.0.0.1/", "without a user name or password"),
        ("http://example.org@127.0.0.1/", "without a user name or password"),
        ("http://a:b@example.org/", "without a user name or password"),
        ("http://example.org\\@127.0.0.1/", "backslashes"),
        ("http://127.0.0.1\\.example.org/", "backslashes"),
        ("http://exa mple.org/", "spaces"),
        ("http://example.org/\r\nHost: x", "control characters"),
        ("http://exam\tple.org/", "control characters"),
        ("\x01http://example.org/", "control characters"),
        ("http://2130706433/", "four decimal numbers"),
        ("http://0x7f000001/", "four decimal numbers"),
        ("http://0x7f.0.0.1/", "four decimal numbers"),
        ("http://0177.0.0.1/", "four decimal numbers"),
        ("http://127.1/", "four decimal numbers"),
        ("http://127.0.0.0x1/", "four decimal numbers"),
        ("http://0/", "four decimal numbers"),
        ("http://127.0.0.1.1/", "four decimal numbers"),
        ("http://127%2e0%2e0%2e1/", "a valid host name"),
        ("http://example..org/", "a valid host name"),
        ("http://.example.org/", "a valid host name"),
        ("http://example.org../", "a valid host name"),
        ("http://-a.example/", "a valid host name"),
        (f"http://{'a' * 64}.example/", "a valid host name"),
        (f"http://{'a.' * 130}example/", "a valid host name"),
        ("http://", "a valid host name"),
        ("http:///path", "a valid host name"),
        ("http://[::1", "a valid URL"),
        ("http://[fe80::1%25eth0]/", "an IPv6 address without a zone"),
        ("http://[fe80::1%eth0]/", "an IPv6 address without a zone"),
        ("http://[v1.x]/", "a"),
        ("http://example.org:0/", "a port from 1 to 65535"),
        ("http://example.org:65536/", "a valid URL"),
        ("http://example.org:x/", "a valid URL"),
        ("http://" + "a" * 9000, "a URL of at most 8192 characters; got 9007"),
    ],
)
def test_urls_that_are_refused(url: str, expected: str) -> None:
    with pytest.raises(FetchError) as caught:
        parse_http_url(url)
    assert caught.value.reason == "bad_url" and not caught.value.retryable
    assert expected in str(caught.value) and len(str(caught.value)) < 400


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_a_url_or_an_error(rest: str) -> None:
    for url in (rest, "http://" + rest):
        try:
            parsed = parse_http_url(url)
        except FetchError as error:
            assert error.reason == "bad_url"
        else:
            assert parsed.host.isascii() and parsed.path.isascii() and parsed.path.startswith("/")
            assert parse_http_url(str(parsed)) == parsed


# One download, as a state machine.


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


# data: and file: URLs.


def test_data_urls() -> None:
    assert parse_data_url("data:image/png;base64,AAAA", 3) == ("image/png", "AAAA")
    assert parse_data_url("DATA:video/jpeg;a=b;BASE64,A,B", 9) == ("video/jpeg;a=b", "A,B")
    assert parse_data_url("data:;base64,", 9) == ("", "")
    for url in ("data:", "data:image/png,abc", "data:image/png;base64", "data:base64,abc"):
        with pytest.raises(FetchError, match="expected a data URL like data:image/png;base64"):
            parse_data_url(url, 9)
    with pytest.raises(MediaError) as caught:
        parse_data_url("data:image/png;base64," + "A" * 4000, 2000)
    assert caught.value.reason == "too_large" and "at most 2000 bytes; got 3000" in str(
        caught.value
    )


def test_schemes() -> None:
    assert [scheme_of(u) for u in ("HTTP://a", "data:x", "no colon here", "a.png")] == [
        "http",
        "data",
        "",
        "",
    ]


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
