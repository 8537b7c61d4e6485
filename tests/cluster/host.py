# SPDX-License-Identifier: Apache-2.0
"""This machine for pods of a cluster that is not ours: brokers of the tests listen here."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from ipaddress import ip_address
from urllib.parse import urlsplit

from cluster.errors import Unavailable
from streamapp.kafka.ports import is_free

VARIABLE = "STREAMAPP_HOST_ADDRESS"


def towards(server: str) -> str:
    """The address with which this machine reaches an API server: nodes, and pods through them, reach this machine by
    it.

    Args:
        server: the API server's URL.

    Raises:
        Unavailable: if others cannot use it, or no server can listen on it.
    """
    return _usable(os.environ.get(VARIABLE) or _source_address(server), f"the way to the API server, {server}")


def gateway_of(network: str) -> str:
    """The address of this machine on a network of Docker's engine.

    Raises:
        Unavailable: if there is none, as with an engine in a machine of its own.
    """
    return _usable(os.environ.get(VARIABLE) or _gateway(network), f"the gateway of Docker's network '{network}'")


def _source_address(server: str) -> str:
    place = urlsplit(server)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.connect((place.hostname, place.port or 443))  # nothing is sent
            return str(asked.getsockname()[0])
    except OSError:
        return ""


def _gateway(network: str) -> str:
    done = subprocess.run(["docker", "network", "inspect", network], capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout or "[]")
    gateways = [part.get("Gateway", "") for each in found for part in each["IPAM"]["Config"] or ()]
    return next((address for address in gateways if address and ip_address(address).version == 4), "")


def _usable(address: str, where: str) -> str:
    fix = f"say in {VARIABLE} by which address of its own this machine is reached from pods"
    if not address:
        raise Unavailable(f"{where}, shows no address of this machine; {fix}")
    if address.startswith("127."):
        raise Unavailable(f"{where}, is {address}, where pods find themselves; {fix}")
    if not is_free(0, address):
        raise Unavailable(f"{where}, is {address}, and nothing here can listen on that; {fix}")
    return address
