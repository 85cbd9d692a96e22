"""Which URLs are read, and which addresses are public."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookhear.media.base import FetchError, MediaError
from lookhear.media.fetching.addresses import is_allowed, parse_address, parse_network
from lookhear.media.fetching.urls import HttpUrl, parse_data_url, parse_http_url, scheme_of

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
        # Some versions of Python refuse these themselves: "a valid URL (Invalid IPv6 URL)".
        ("http://[2606:4700::1111].example.org/", "a"),
        ("http://example.org[2606:4700::1111]/", "a"),
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


def test_data_urls() -> None:
    assert parse_data_url("data:image/png;base64,AAAA", 3) == ("image/png", "AAAA")
    assert parse_data_url("DATA:video/jpeg;a=b;BASE64,A,B", 9) == ("video/jpeg;a=b", "A,B")
    assert parse_data_url("data:;base64,", 9) == ("", "")
    assert parse_data_url("data:;base64,A%2Bb%2f%3D%0A", 20) == ("", "A+b/=\n")
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
