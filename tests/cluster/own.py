# SPDX-License-Identifier: Apache-2.0
"""Our own cluster, complete: a node, the images that it needs, and names that resolve."""

from __future__ import annotations

import json
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

from cluster.access import Cluster
from cluster.binaries import binaries
from cluster.components import PAUSE_IMAGE
from cluster.errors import Broken, Unavailable
from cluster.images import TARGETS, Buildah
from cluster.machine import Machine, why_not
from cluster.packages import install_packages
from cluster.site import DOMAIN

COREDNS_IMAGE = "localhost/streamapp/coredns:test"
MANIFEST = Path(__file__).parent / "dns.yaml"
DNS_SECONDS = 60.0


def prepare_own_cluster(log: Path) -> None:
    """Does all that is slow the first time: packages, programs, images. Raises Unavailable or Broken."""
    install_packages(log)
    if (reason := why_not()) is not None:
        raise Unavailable(reason)
    binaries()
    buildah = Buildah()
    for name in TARGETS:
        buildah.build(name)


@contextmanager
def own_cluster() -> Iterator[Cluster]:
    """Runs the cluster until the end of the block. Raises Unavailable or Broken."""
    buildah = Buildah()
    with Machine() as machine:

        def load(name: str) -> None:
            _load(machine, buildah, buildah.build(name), name)

        cluster = Cluster(
            what=f"our own, site {machine.site.number}",
            kubeconfig=machine.site.kubeconfig,
            kubectl_program=str(machine.programs / "kubectl"),
            helm_program=str(machine.programs / "helm"),
            load_image=load,
            host_address=lambda: machine.site.host_address,
            restore_iptables=machine.restore_iptables,
            audit_log=machine.site.audit_log,
        )
        for name, image in (("pause", PAUSE_IMAGE), ("coredns", COREDNS_IMAGE)):
            _load(machine, buildah, buildah.build_program(binaries() / name, name), image)
        dns = machine.site.dns_address
        cluster.apply(Template(MANIFEST.read_text()).substitute(dns_address=dns, image=COREDNS_IMAGE), "kube-system")
        _await_dns(dns)
        yield cluster


def _load(machine: Machine, buildah: Buildah, reference: str, name: str) -> None:
    """Imports the image, unless the node's containerd still has it from an earlier run."""
    notes = machine.site.containerd_root / "streamapp-images.json"
    imported: dict[str, str] = json.loads(notes.read_text()) if notes.exists() else {}
    identity = buildah.identity(reference)
    if imported.get(name) == identity:
        return
    with tempfile.TemporaryDirectory(dir=machine.site.run) as folder:
        archive = Path(folder) / "image.tar"
        buildah.archive(reference, name, archive, without=machine.blobs())
        try:
            machine.import_image(archive)
        except Broken:  # containerd removes an older version's layers at any moment, and this one builds on them
            buildah.archive(reference, name, archive)
            machine.import_image(archive)
    notes.write_text(json.dumps({**imported, name: identity}, indent=1) + "\n")


def _await_dns(server: str) -> None:
    """Waits until the service answers: the rollout alone does not show that the rules that lead to it are in force."""
    deadline = time.monotonic() + DNS_SECONDS
    while not _resolves(f"kubernetes.default.svc.{DOMAIN}", server):
        if time.monotonic() > deadline:
            raise Broken(f"the cluster's DNS at {server} does not answer after {DNS_SECONDS:.0f} s")
        time.sleep(0.1)


def _resolves(name: str, server: str) -> bool:
    """Asks once for an address, by hand (RFC 1035): the machine's own resolver asks other servers."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = struct.pack(">6H", 1, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(0.5)
        try:
            client.sendto(question, (server, 53))
            answer = client.recv(512)
        except OSError:
            return False
    return len(answer) >= 12 and answer[3] & 0x0F == 0 and struct.unpack(">H", answer[6:8])[0] > 0
