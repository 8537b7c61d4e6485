# SPDX-License-Identifier: Apache-2.0
"""The programs that make up a node, in the order they are started: commands and settings as data, nothing runs here.

The order matters: a component whose predecessor does not answer yet exits instead of waiting.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.packages import CNI_PLUGINS
from cluster.site import DOMAIN, NODE, Site

PAUSE_IMAGE = "localhost/streamapp/pause:test"
ETCD_CLIENTS = "http://127.0.0.1:2379"
ETCD_PEERS = "http://127.0.0.1:2380"


@dataclass(frozen=True)
class Component:
    """A program of the node. `ready` is a command that succeeds once the component serves; without one nothing waits
    for it."""

    name: str
    command: tuple[str, ...]
    ready: tuple[str, ...] = ()


def components(site: Site) -> tuple[Component, ...]:
    programs, pki = site.programs, site.pki
    kubectl = (str(programs / "kubectl"), f"--kubeconfig={site.kubeconfig}")
    return (
        Component(
            "containerd",
            ("containerd", "-c", str(site.run / "containerd.toml")),
            ready=("ctr", "-a", str(site.containerd_socket), "version"),
        ),
        Component(
            "etcd",
            (
                str(programs / "etcd"),
                f"--data-dir={site.run / 'etcd'}",
                f"--listen-client-urls={ETCD_CLIENTS}",
                f"--advertise-client-urls={ETCD_CLIENTS}",
                f"--listen-peer-urls={ETCD_PEERS}",
                f"--initial-advertise-peer-urls={ETCD_PEERS}",
                f"--initial-cluster=default={ETCD_PEERS}",
                "--unsafe-no-fsync",  # nothing here outlives the run
            ),
            ready=("bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/2379"),
        ),
        Component(
            "kube-apiserver",
            (
                str(programs / "kube-apiserver"),
                f"--etcd-servers={ETCD_CLIENTS}",
                f"--advertise-address={site.node_address}",
                "--secure-port=6443",
                f"--service-cluster-ip-range={site.service_range}",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                "--allow-privileged=true",
                f"--client-ca-file={pki / 'ca.crt'}",
                *_serving(site, "apiserver"),
                f"--kubelet-certificate-authority={pki / 'ca.crt'}",
                f"--kubelet-client-certificate={pki / 'apiserver-to-kubelet.crt'}",
                f"--kubelet-client-key={pki / 'apiserver-to-kubelet.key'}",
                "--kubelet-preferred-address-types=InternalIP",
                f"--service-account-issuer=https://kubernetes.default.svc.{DOMAIN}",
                f"--service-account-key-file={pki / 'service-accounts.pub'}",
                f"--service-account-signing-key-file={pki / 'service-accounts.key'}",
                f"--audit-policy-file={site.run / 'audit.json'}",
                f"--audit-log-path={site.audit_log}",
                "--audit-log-mode=blocking",  # every request that was answered is in the log
            ),
            ready=(*kubectl, "get", "--raw=/readyz"),
        ),
        Component(
            "kube-controller-manager",
            (
                str(programs / "kube-controller-manager"),
                *_client(site, "controller-manager"),
                *_serving(site, "controller-manager"),
                f"--root-ca-file={pki / 'ca.crt'}",
                f"--service-account-private-key-file={pki / 'service-accounts.key'}",
                "--use-service-account-credentials=true",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
            ),
        ),
        Component(
            "kube-scheduler",
            (
                str(programs / "kube-scheduler"),
                *_client(site, "scheduler"),
                *_serving(site, "scheduler"),
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
            ),
        ),
        Component(
            "kubelet",
            (
                str(programs / "kubelet"),
                f"--config={site.run / 'kubelet.json'}",
                f"--kubeconfig={pki / 'kubelet.kubeconfig'}",
                f"--hostname-override={NODE}",
                f"--node-ip={site.node_address}",
                f"--root-dir={site.run / 'kubelet'}",
            ),
        ),
        Component(
            "kube-proxy",
            (str(programs / "kube-proxy"), f"--config={site.run / 'proxy.json'}"),
            ready=(*kubectl, "wait", "--for=condition=Ready", f"node/{NODE}", "--timeout=1s"),
        ),
    )


def settings(site: Site) -> dict[Path, str]:
    """The components' configuration files."""
    return {
        site.run / "containerd.toml": _containerd(site),
        site.run / "cni" / "10-bridge.conflist": json.dumps(_network(site), indent=1),
        site.run / "kubelet.json": json.dumps(_kubelet(site), indent=1),
        site.run / "proxy.json": json.dumps(_proxy(site), indent=1),
        site.run / "audit.json": json.dumps(_audit(), indent=1),
    }


def _audit() -> dict[str, Any]:
    """The audit policy: it logs the requests of programs in pods, without their content."""
    of_pods = {"level": "Metadata", "userGroups": ["system:serviceaccounts"], "omitStages": ["RequestReceived"]}
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [of_pods, {"level": "None"}]}


def _client(site: Site, name: str) -> tuple[str, ...]:
    file = site.pki / f"{name}.kubeconfig"
    return tuple(
        f"--{option}={file}" for option in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    )


def _serving(site: Site, name: str) -> tuple[str, ...]:
    return f"--tls-cert-file={site.pki / name}.crt", f"--tls-private-key-file={site.pki / name}.key"


def _containerd(site: Site) -> str:
    # restrict_oom_score_adj and the zero scores below: inside a container or a virtual machine we may not ask for
    # a score that is better than our own.
    return f"""version = 2
root = "{site.containerd_root}"
state = "{site.run / "containerd"}"
oom_score = 0
[grpc]
  address = "{site.containerd_socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{site.run / "cni"}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def _network(site: Site) -> dict[str, Any]:
    """The network's configuration: pods are on one bridge, `cni0`; packets that leave it carry the node's address."""
    addresses = {
        "type": "host-local",
        "dataDir": str(site.run / "addresses"),
        "ranges": [[{"subnet": site.pod_range}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "streamapp", "plugins": [bridge, ports]}


def _kubelet(site: Site) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(site.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(site.pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(site.pki / "kubelet.key"),
        "containerRuntimeEndpoint": f"unix://{site.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{site.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "clusterDNS": [site.dns_address],
        "clusterDomain": DOMAIN,
        "volumePluginDir": str(site.run / "volume-plugins"),
        # A machine with a full disk is no reason to delete images or to evict pods here.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {"memory.available": "100Mi"},
    }


def _proxy(site: Site) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(site.pki / "proxy.kubeconfig")},
        "clusterCIDR": site.pod_range,
        "hostnameOverride": NODE,
        "oomScoreAdj": 0,
        "conntrack": {"maxPerCore": 0},  # a limit of the whole machine, not ours to change
        "iptables": {"minSyncPeriod": "100ms"},  # services follow their pods at once
    }
