# SPDX-License-Identifier: Apache-2.0
"""Where one of our nodes lives: its folders, addresses and names. Several may run side by side, each on a site."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NODE = "node1"
DOMAIN = "cluster.local"


@dataclass(frozen=True)
class Site:
    """Site number `number`, 0 to 9.

    Addresses: the node and its pods are 10.244.N.0/24, services 10.96.N.0/24, and the link between this machine
    and the node is 10.243.N.0/30. All of them exist only here and in the node's own network namespace.
    """

    number: int
    home: Path

    # --- folders --------------------------------------------------------------------------------------------

    @property
    def run(self) -> Path:
        """The folder of one run: deleted before the next."""
        return self.home / "run"

    @property
    def logs(self) -> Path:
        """The folder of logs, one file for each component; kept until the next run, to be read after a failure."""
        return self.home / "logs"

    @property
    def audit_log(self) -> Path:
        """The requests of programs in pods to the API server, one JSON object a line."""
        return self.logs / "audit.log"

    @property
    def pki(self) -> Path:
        """The folder of keys, certificates and kubeconfigs; kept, as the addresses in them never change."""
        return self.home / "pki"

    @property
    def containerd_root(self) -> Path:
        """The folder of images; kept, as importing them is slow."""
        return self.home / "containerd"

    @property
    def programs(self) -> Path:
        """A link to the binaries this run was started with."""
        return self.run / "programs"

    @property
    def containerd_socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, with its certificates inside: for whoever uses the cluster."""
        return self.pki / "admin.kubeconfig"

    # --- addresses ------------------------------------------------------------------------------------------

    @property
    def pod_range(self) -> str:
        return f"10.244.{self.number}.0/24"

    @property
    def service_range(self) -> str:
        return f"10.96.{self.number}.0/24"

    @property
    def node_address(self) -> str:
        """The address of the bridge that the pods are on, which is also that of kubelet and API server."""
        return f"10.244.{self.number}.1"

    @property
    def kubernetes_address(self) -> str:
        """The address of the service `kubernetes`: always the first of the range."""
        return f"10.96.{self.number}.1"

    @property
    def dns_address(self) -> str:
        return f"10.96.{self.number}.10"

    @property
    def host_address(self) -> str:
        """The address of this machine for node and pods: pods reach services that listen on it here."""
        return f"10.243.{self.number}.1"

    @property
    def link_address(self) -> str:
        """The address of the node for this machine."""
        return f"10.243.{self.number}.2"

    # --- names ----------------------------------------------------------------------------------------------

    @property
    def link(self) -> str:
        """The network interface here that leads to the node (15 characters at most)."""
        return f"streamapp{self.number}"

    @property
    def cgroup(self) -> str:
        """The control group of all pods."""
        return f"streamapp-{self.number}"

    @property
    def server(self) -> str:
        return f"https://{self.node_address}:6443"
