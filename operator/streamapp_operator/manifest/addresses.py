# SPDX-License-Identifier: Apache-2.0
"""Checks the addresses that a manifest names. The operator itself connects to an app's brokers, and asks for the app's
tokens, from a place in the network that the app's author may not have. So the person who installs it says where to.
Pure.

An address is judged as it is written. A NetworkPolicy of the operator must bound the addresses that a name leads to,
and those that a broker advertises to its clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from streamapp.errors import Problem, StreamAppError
from streamapp.plan import KafkaSettings
from streamapp_operator.settings import Settings

ANY = "*"
EVERYWHERE = "**"
"""Any address there is. No chart has this entry."""
_METADATA = frozenset(map(ip_address, ("fd00:ec2::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")))
"""Addresses of metadata services of AWS, Alibaba, Azure and Oracle besides 169.254.169.254."""
_NAT64 = ip_network("64:ff9b::/96")
"""Addresses with an IPv4 address in their last four bytes (RFC 6052)."""
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
"""A name of nothing but these is an address to a C library: 0xa9fea9fe, 2852039166, 169.16689662."""


class RefusedAddress(StreamAppError):
    """The operator is not to connect there."""


def problems_of_addresses(kafka: KafkaSettings, settings: Settings) -> Iterator[Problem]:
    """Why the operator may not connect where a manifest wants it to, with the value of the chart that allows it."""
    for server in (each.strip() for each in (kafka.bootstrap_servers or "").split(",")):
        host, port = _parts(server)
        yield from _problems("bootstrapServers", server, host, port, settings.allowed_brokers, "allowedBrokers")
    if kafka.token_endpoint is not None:
        url = urlsplit(kafka.token_endpoint)
        port = str(url.port or (443 if url.scheme == "https" else 80))
        allowed = settings.allowed_token_endpoints
        yield from _problems(
            "sasl.tokenEndpoint", kafka.token_endpoint, url.hostname or "", port, allowed, "allowedTokenEndpoints"
        )


def require_addresses(kafka: KafkaSettings, settings: Settings) -> None:
    """
    Raises:
        RefusedAddress: the operator may not connect there.
    """
    for problem in problems_of_addresses(kafka, settings):
        raise RefusedAddress(str(problem))


def _problems(
    field: str, address: str, host: str, port: str, allowed: tuple[str, ...], value: str
) -> Iterator[Problem]:
    if any(_fits(each, host, port) for each in allowed):
        return
    if ANY in allowed:  # which stands for names and common addresses
        why = "this is no address of a machine that others may reach"
    elif allowed:
        why = f"the operator connects to {', '.join(allowed)} only"
    else:
        why = "the operator's settings allow none"
    fix = f"use another one, or have '{_entry(host, port)}' added to apps.{value} of the operator's chart"
    yield Problem(None, f"kafka.{field}", address, why, fix)


def _fits(allowed: str, host: str, port: str) -> bool:
    """Whether an entry allows an address.

    >>> [_fits("*.kafka.example:9092", *each) for each in (("b1.kafka.example", "9092"), ("b1.kafka.example", "22"))]
    [True, False]
    >>> [_fits("*.kafka.example", host, "9092") for host in ("B1.Kafka.Example.", "kafka.example", "xkafka.example")]
    [True, False, False]
    >>> [_fits("*", host, "9092") for host in ("kafka-0", "1kafka", "10.0.0.7", "[fd00::1]")]
    [True, True, True, True]
    >>> [_fits("*", host, "80") for host in ("169.254.169.254", "0xA9FEA9FE", "[fe80::1]", "[::ffff:169.254.169.254]")]
    [False, False, False, False]
    >>> _fits("169.254.169.254", "169.254.169.254", "80")
    True
    """
    if allowed == EVERYWHERE:
        return True
    name, at = _parts(allowed)
    name, host = name.lower().rstrip("."), host.lower().rstrip(".").strip("[]")
    if at and at != port:
        return False
    if name == ANY:
        return _is_common(host)
    return host.endswith(name[1:]) if name.startswith("*.") else host == name.strip("[]")


def _is_common(host: str) -> bool:
    """Whether an address is of a machine that others may reach, and not of a cloud's metadata service."""
    address: IPv4Address | IPv6Address
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return not all(_NUMBER.fullmatch(label) for label in host.split("."))
    if isinstance(address, IPv6Address):
        within = IPv4Address(address.packed[-4:]) if address in _NAT64 else None
        address = address.ipv4_mapped or address.sixtofour or within or address
    return not (address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA)


def _parts(address: str) -> tuple[str, str]:
    """Host and port; none: any.

    >>> _parts("kafka:9092"), _parts("[fe80::1]:9092"), _parts("*.example")
    (('kafka', '9092'), ('[fe80::1]', '9092'), ('*.example', ''))
    """
    host, colon, port = address.rpartition(":")
    return (host, port) if colon and "]" not in port else (address, "")


def _entry(host: str, port: str) -> str:
    return f"{host}:{port}" if port else host
