# SPDX-License-Identifier: Apache-2.0
"""Keys, certificates and kubeconfigs of a node, by openssl.

One authority signs for everybody; each component has an identity of its own, as on a cluster that kubeadm makes, so
that the API server's Node and RBAC authorizers have an effect.
"""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import Unavailable
from cluster.site import DOMAIN, NODE, Site
from lib.certificates import openssl, sign

DAYS = 3650


@dataclass(frozen=True)
class Identity:
    """An owner of a certificate: the API server knows it by `user` and `group`."""

    name: str
    user: str
    group: str = ""
    hosts: tuple[str, ...] = ()
    """The names and addresses that it serves at."""

    @property
    def subject(self) -> str:
        return (f"/O={self.group}" if self.group else "") + f"/CN={self.user}"


def identities(site: Site) -> tuple[Identity, ...]:
    local = ("DNS:localhost", "IP:127.0.0.1")
    service = "kubernetes.default.svc"
    names = ("kubernetes", "kubernetes.default", service, f"{service}.{DOMAIN}")
    api_hosts = (*(f"DNS:{name}" for name in names), f"IP:{site.kubernetes_address}", f"IP:{site.node_address}")
    return (
        Identity("apiserver", "kube-apiserver", hosts=(*local, *api_hosts)),
        Identity("apiserver-to-kubelet", "kube-apiserver-kubelet-client", "system:masters"),
        Identity("kubelet", f"system:node:{NODE}", "system:nodes", (*local, f"DNS:{NODE}", f"IP:{site.node_address}")),
        Identity("controller-manager", "system:kube-controller-manager", hosts=local),
        Identity("scheduler", "system:kube-scheduler", hosts=local),
        Identity("proxy", "system:kube-proxy"),
        Identity("admin", "admin", "system:masters"),
    )


def ensure_certificates(site: Site) -> None:
    """Fills `site.pki`, unless that was done before; the folder appears in one step."""
    if site.pki.exists():
        return
    if shutil.which("openssl") is None:
        raise Unavailable("openssl is missing, which makes the cluster's certificates")
    unfinished = site.pki.with_suffix(".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True, mode=0o700)
    _make_authority(unfinished)
    openssl(unfinished, "genrsa", "-out", "service-accounts.key", "2048")
    openssl(unfinished, "rsa", "-in", "service-accounts.key", "-pubout", "-out", "service-accounts.pub")
    for identity in identities(site):
        _make_certificate(unfinished, identity)
        _write_kubeconfig(unfinished, identity, site)
    unfinished.rename(site.pki)


def _make_authority(folder: Path) -> None:
    _make_key(folder, "ca")
    openssl(
        folder,
        "req",
        "-x509",
        "-new",
        "-key",
        "ca.key",
        "-days",
        str(DAYS),
        "-subj",
        "/CN=streamapp-test-cluster",
        "-addext",
        "basicConstraints=critical,CA:TRUE",
        "-addext",
        "keyUsage=critical,digitalSignature,keyCertSign",
        "-out",
        "ca.crt",
    )


def _make_certificate(folder: Path, identity: Identity) -> None:
    name = identity.name
    extensions = ["keyUsage=critical,digitalSignature", "extendedKeyUsage=serverAuth,clientAuth"]
    if identity.hosts:
        extensions.append("subjectAltName=" + ",".join(identity.hosts))
    _make_key(folder, name)
    openssl(folder, "req", "-new", "-key", f"{name}.key", "-subj", identity.subject, "-out", f"{name}.csr")
    sign(folder, name, extensions, "ca", DAYS, ".crt")


def _make_key(folder: Path, name: str) -> None:
    openssl(folder, "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{name}.key")


def _write_kubeconfig(folder: Path, identity: Identity, site: Site) -> None:
    def content(file: str) -> str:
        return base64.b64encode((folder / file).read_bytes()).decode()

    name = site.cgroup
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {"name": name, "cluster": {"server": site.server, "certificate-authority-data": content("ca.crt")}}
        ],
        "users": [
            {
                "name": identity.name,
                "user": {
                    "client-certificate-data": content(f"{identity.name}.crt"),
                    "client-key-data": content(f"{identity.name}.key"),
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": identity.name}}],
    }
    file = folder / f"{identity.name}.kubeconfig"
    file.touch(mode=0o600)
    file.write_text(json.dumps(config, indent=1) + "\n")
