"""Which IP addresses a URL that a stranger sent may lead to.

Python's `is_global` is not used: its answer has changed between versions, and in 3.11 it takes
site-local, IPv4-compatible and 6to4 addresses for public ones.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

__all__ = ["Address", "Network", "is_allowed", "parse_address", "parse_network"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# IANA's special-purpose registries (RFC 6890 and its updates).
NOT_PUBLIC_4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",
        "100.64.0.0/10",  # carriers' NAT, and some clouds' metadata
        "127.0.0.0/8",
        "169.254.0.0/16",  # link-local: metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
PUBLIC_6 = ipaddress.IPv6Network("2000::/3")  # all that is given out; the rest is special
NOT_PUBLIC_6 = tuple(
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # protocols, Teredo among them: it holds an IPv4 address
        "2001:db8::/32",
        "2002::/16",  # 6to4 holds an IPv4 address
        "3fff::/20",
    )
)
# Ways of writing an IPv4 address: judged by that address.
HOLDS_IPV4 = (
    ipaddress.IPv6Network("::ffff:0:0/96"),  # mapped: the system connects to the IPv4 address
    ipaddress.IPv6Network("64:ff9b::/96"),  # NAT64 (RFC 6052): the only way out of some networks
)


def parse_address(text: str) -> Address | None:
    """None if the text is no address in its plain form: no zone, no octal or missing parts."""
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def parse_network(text: str) -> Network:
    """Raises ValueError."""
    return ipaddress.ip_network(text)


def is_allowed(address: Address, networks: Iterable[Network] = ()) -> bool:
    """Whether it is a public address or in one of the networks that are allowed besides.

    A NAT64 prefix that only one network uses (RFC 6052, section 2.2) cannot be told from any other
    public address.
    """
    if isinstance(address, ipaddress.IPv6Address) and any(address in n for n in HOLDS_IPV4):
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if any(address.version == n.version and address in n for n in networks):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in n for n in NOT_PUBLIC_4)
    return address in PUBLIC_6 and not any(address in n for n in NOT_PUBLIC_6)
