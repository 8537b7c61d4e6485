# SPDX-License-Identifier: Apache-2.0
"""The model of the manifest: what a StreamApp resource says, on a laptop as on a cluster."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PrivateAttr, StrictBool, model_validator

from streamapp.addresses import HOST
from streamapp.cron import parse_cron
from streamapp.durations import parse_duration
from streamapp.errors import Invalid, ManifestError, shorten
from streamapp.fields import Brokers, Count, Duration, Model, PositiveCount, PositiveDuration, one_of, refuse
from streamapp.manifest.dumping import to_yaml
from streamapp.manifest.node import NodeSpec
from streamapp.manifest.places import Places
from streamapp.nodes import Topology

API_VERSION = "streamapp.dev/v1alpha1"
KIND = "StreamApp"
_LABEL = "[a-z0-9]([a-z0-9-]*[a-z0-9])?"
OBJECT_NAME = rf"{_LABEL}(\.{_LABEL})*"
"""The form that Kubernetes takes for the name of most objects: a DNS subdomain (RFC 1123)."""
LONGEST_OBJECT_NAME = 253
_LARGEST_PARALLELISM = 4096


def _word(*allowed: str, not_yet: tuple[str, ...] = ()) -> Any:
    return BeforeValidator(lambda value: one_of(value, allowed, not_yet), json_schema_input_type=Literal[allowed])


def is_object_name(name: object) -> bool:
    """Whether an object of a cluster can have that name."""
    return isinstance(name, str) and len(name) <= LONGEST_OBJECT_NAME and re.fullmatch(OBJECT_NAME, name) is not None


def _object_name(name: str) -> str:
    if not is_object_name(name):
        refuse(
            f"'{name}' cannot be the name of an object in a cluster",
            "use lower-case letters, digits, `.` and `-`",
        )
    return name


def _start_from(text: str) -> str:
    if text not in ("earliest", "latest"):
        start_from_ms(text)
    return text


def start_from_ms(text: str) -> int:
    """A timestamp of `startFrom` in milliseconds since the epoch; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        refuse(f"'{text}' is neither earliest nor latest nor a timestamp", "write e.g. '2024-01-31T00:00:00Z'")
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def _cron(line: str) -> str:
    try:
        parse_cron(line)
    except Invalid as error:
        refuse(error.message, error.fix)
    return line


def _transaction_timeout(text: str) -> str:
    if not 1_000 <= parse_duration(text) <= 86_400_000:
        refuse(f"'{text}' is not between 1s and 1 day", "write e.g. 60s, and not less than an epoch may take")
    return text


PAGE = rf"https?://{HOST}(:[0-9]{{1,5}})?(/[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*)?"
"""A URL without a user: RFC 3986's characters."""
SCOPE = r"[!#-\[\]-z|~]+( [!#-\[\]-z|~]+)*"
"""RFC 6749's scopes, without braces: `${` begins a reference in Kafka's settings."""
LONGEST_SCOPE = 1000
LONGEST_PATH = 4096


def _http_url(text: str) -> str:
    if not re.fullmatch(PAGE, text):
        refuse(f"'{text}' is not the address of a page", "write https://HOST/PATH, or https://HOST:PORT/PATH")
    return text


def _scope(text: str) -> str:
    if len(text) > LONGEST_SCOPE or not re.fullmatch(SCOPE, text):
        refuse(
            f"'{shorten(text)}' is no scope",
            "write words of letters, digits and signs, without quotes, backslashes and braces",
        )
    return text


def _path(text: str) -> str:
    if len(text) > LONGEST_PATH or not text.isprintable():
        refuse(f"'{shorten(text)}' is no path of a file", "write one without line ends and other control characters")
    return text


def _on_bad_record(value: Any) -> Any:
    if isinstance(value, dict):
        return value
    return one_of(value, ("Fail", "Drop"))


def _allowed_loss(value: list[str] | None) -> list[str] | None:
    if value:
        refuse(
            "a store cannot lose its state in place yet in this version",
            "leave `allowStateLoss` out; another `store` on the node begins empty",
        )
    return value


def _replicas_of_standby(value: int) -> int:
    if value > 0:
        refuse("warm copies of stores are not available yet in this version", "leave `standbyReplicas` out")
    return value


class SecretRef(Model):
    """A Secret of the app's namespace."""

    name: Annotated[str, AfterValidator(_object_name), Field(description="Name of the Secret.")]


class ConfigMapRef(Model):
    """A ConfigMap of the app's namespace."""

    name: Annotated[str, AfterValidator(_object_name), Field(description="Its name.")]


class CodeSpec(Model):
    """Where the modules of the user's own functions are. One place, or one for a laptop and one for a cluster."""

    files: Annotated[
        dict[str, str] | None, Field(min_length=1, description="Here: file name, e.g. scoring.py, to its text.")
    ] = None
    path: Annotated[
        str | None,
        Field(min_length=1, description="On a laptop: a module, or a folder of them, beside the manifest."),
    ] = None
    config_map_ref: Annotated[
        ConfigMapRef | None, Field(description="On a cluster: ConfigMap whose keys are file names of modules.")
    ] = None

    @model_validator(mode="after")
    def _one_place(self) -> CodeSpec:
        if self.files is None and self.path is None and self.config_map_ref is None:
            refuse("`code` says no place", "add files: {scoring.py: …}, path or configMapRef")
        if self.files is not None and (self.path is not None or self.config_map_ref is not None):
            other = "path" if self.path is not None else "configMapRef"
            refuse(f"there are `files` and `{other}`", "keep one of them")
        return self


File = Annotated[str, AfterValidator(_path)]


class TlsSpec(Model):
    """Encryption; certificates are PEM."""

    ca_file: Annotated[File | None, Field(description="On a laptop: file with the authority's certificates.")] = None
    certificate_file: Annotated[File | None, Field(description="On a laptop: file with our own certificate chain.")] = (
        None
    )
    key_file: Annotated[File | None, Field(description="On a laptop: file with our own private key.")] = None
    secret_ref: Annotated[
        SecretRef | None, Field(description="On a cluster: Secret with ca.crt, and tls.crt and tls.key.")
    ] = None


class SaslSpec(Model):
    """The app's identity at Kafka. User and password are never in the manifest itself."""

    mechanism: Annotated[
        str,
        _word("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
        Field(description="How the app authenticates itself to Kafka."),
    ]
    credentials_file: Annotated[
        File | None,
        Field(
            description="On a laptop: file with the lines username=… and password=…; with OAUTHBEARER, clientId=… and "
            "clientSecret=…."
        ),
    ] = None
    secret_ref: Annotated[
        SecretRef | None,
        Field(
            description="On a cluster: Secret with username and password; with OAUTHBEARER, with clientId and "
            "clientSecret."
        ),
    ] = None
    token_endpoint: Annotated[
        str | None, AfterValidator(_http_url), Field(description="OAUTHBEARER: URL where tokens are asked for.")
    ] = None
    scope: Annotated[str | None, AfterValidator(_scope), Field(description="OAUTHBEARER: scope to ask for.")] = None

    @model_validator(mode="after")
    def _token(self) -> SaslSpec:
        if self.mechanism == "OAUTHBEARER" and self.token_endpoint is None:
            refuse("`tokenEndpoint` is missing", "add tokenEndpoint: https://HOST/PATH, where tokens are asked for")
        if self.mechanism != "OAUTHBEARER" and (self.token_endpoint is not None or self.scope is not None):
            refuse("`tokenEndpoint` and `scope` are for OAUTHBEARER", "remove them, or set mechanism: OAUTHBEARER")
        return self


class KafkaSpec(Model):
    """Where Kafka is and how to be let in."""

    bootstrap_servers: Annotated[
        Brokers, Field(min_length=1, description="HOST:PORT of one or more brokers, with commas.")
    ]
    tls: Annotated[TlsSpec | None, Field(description="Encryption.")] = None
    sasl: Annotated[SaslSpec | None, Field(description="Authentication.")] = None


class LagTarget(Model):
    """The lag to keep; with both, the larger need wins."""

    records_per_replica: Annotated[
        PositiveCount | None, Field(description="Records of lag that one replica may have.")
    ] = None
    catch_up_within: Annotated[PositiveDuration | None, Field(description="How long catching up may take.")] = None


class ScheduledBounds(Model):
    """Other bounds from a time on."""

    cron: Annotated[str, AfterValidator(_cron), Field(description="When these bounds begin: a cron line, in UTC.")]
    min_replicas: Annotated[Count | None, Field(description="From then on.")] = None
    max_replicas: Annotated[PositiveCount | None, Field(description="From then on.")] = None


class AutoscalingSpec(Model):
    """Replicas that follow the lag."""

    min_replicas: Annotated[Count, Field(description="Never fewer; 0 keeps the driver and no executor.")] = 1
    max_replicas: Annotated[PositiveCount, Field(description="Never more.")]
    lag: Annotated[LagTarget | None, Field(description="The lag to keep.")] = None
    stabilisation: Annotated[Duration | None, Field(description="How long lag must stay low before replicas go.")] = (
        None
    )
    schedule: Annotated[list[ScheduledBounds] | None, Field(description="Other bounds at other times.")] = None
    mode: Annotated[
        str,
        _word("Recommend", "Auto"),
        Field(description="Auto scales; Recommend only says what it would do."),
    ] = "Auto"

    @model_validator(mode="after")
    def _bounds(self) -> AutoscalingSpec:
        for bounds in (self, *(self.schedule or ())):
            low = self.min_replicas if bounds.min_replicas is None else bounds.min_replicas
            high = self.max_replicas if bounds.max_replicas is None else bounds.max_replicas
            if low > high:
                refuse(f"minReplicas {low} is more than maxReplicas {high}", "make minReplicas the smaller one")
        return self


class DeadLetterSpec(Model):
    """Where records go that cannot be read."""

    dead_letter: Annotated[str, Field(description="The topic.")]


class UpgradeSpec(Model):
    """Options for changes of the app."""

    allow_state_loss: Annotated[
        list[str] | None, AfterValidator(_allowed_loss), Field(description="Stores that may be lost.")
    ] = None
    strategy: Annotated[
        str,
        _word("InPlace", not_yet=("Parallel",)),
        Field(description="InPlace: stop the old version, start the new one."),
    ] = "InPlace"
    progress_deadline: Annotated[
        PositiveDuration,
        Field(description="How long a new version may make no progress before the last healthy one comes back."),
    ] = "5 minutes"


class PodSpec(Model):
    """Parts of the pods that run the app."""

    resources: Annotated[dict[str, Any] | None, Field(description="Requests and limits, as in a container.")] = None
    pod_template: Annotated[dict[str, Any] | None, Field(description="Merged into the pod's template.")] = None


class Spec(Model):
    """The app's settings."""

    application_id: Annotated[
        str | None,
        Field(description="Prefix of its topics, transactional ids and consumer group. Default: metadata.name."),
    ] = None
    kafka: Annotated[
        KafkaSpec | None, Field(description="Where Kafka is. Default on a laptop: an embedded broker.")
    ] = None
    topology: Annotated[list[NodeSpec], Field(min_length=1, description="The nodes.")]
    code: Annotated[
        CodeSpec | None, Field(description="Python modules of `python` nodes. Default: those in the image.")
    ] = None
    guarantee: Annotated[
        str,
        _word("exactly-once", "at-least-once"),
        Field(description="The effect of failures on results: none (exactly-once), or results twice (at-least-once)."),
    ] = "exactly-once"
    replicas: Annotated[Count | None, Field(description="Executors wanted; absent with autoscaling. Default: 1.")] = (
        None
    )
    autoscaling: Annotated[AutoscalingSpec | None, Field(description="Replicas that follow the lag. Default: off.")] = (
        None
    )
    max_parallelism: Annotated[
        PositiveCount,
        Field(le=_LARGEST_PARALLELISM, description="State partitions; fixed for a store's life."),
    ] = 8
    epoch_interval: Annotated[Duration, Field(description="How often an epoch is cut: latency against cost.")] = "100ms"
    transaction_timeout: Annotated[
        Duration,
        AfterValidator(_transaction_timeout),
        Field(description="How long a task that is lost holds readers up: then Kafka ends its transaction."),
    ] = "60s"
    idle_timeout: Annotated[
        PositiveDuration,
        Field(description="A source partition silent this long no longer holds event time back."),
    ] = "30s"
    run: Annotated[
        str,
        _word("continuous", "untilCaughtUp"),
        Field(description="For ever, or to the end that is found at the start."),
    ] = "continuous"
    close_windows: Annotated[
        StrictBool, Field(description="With run: untilCaughtUp, true: close what is open at the end.")
    ] = False
    schedule: Annotated[
        Annotated[str, AfterValidator(_cron)] | None,
        Field(description="With run: untilCaughtUp, a cron line that says when, in UTC."),
    ] = None
    start_from: Annotated[
        str,
        AfterValidator(_start_from),
        Field(description="earliest, latest, or a timestamp: where to begin in topics without a position."),
    ] = "earliest"
    on_bad_record: Annotated[
        Literal["Fail", "Drop"] | DeadLetterSpec,
        BeforeValidator(_on_bad_record, json_schema_input_type=Literal["Fail", "Drop"] | DeadLetterSpec),
        Field(description="The reaction to records that cannot be read: Fail, Drop, or {deadLetter: TOPIC}."),
    ] = "Fail"
    on_source_loss: Annotated[
        str,
        _word("Fail", "Earliest", "Latest"),
        Field(description="The reaction to records that are gone before they were read."),
    ] = "Fail"
    standby_replicas: Annotated[
        Count,
        AfterValidator(_replicas_of_standby),
        Field(description="Warm copies of each store on other executors."),
    ] = 0
    upgrade: Annotated[UpgradeSpec | None, Field(description="Options for changes of the app.")] = None
    suspend: Annotated[StrictBool, Field(description="true: stop, and keep the state.")] = False
    deletion_policy: Annotated[
        str,
        _word("Retain", "Delete"),
        Field(description="Whether the internal topics stay when the app is deleted."),
    ] = "Retain"
    image: Annotated[str | None, Field(description="Image of driver and executors. Default: the operator's.")] = None
    driver: Annotated[PodSpec | None, Field(description="The driver's pod.")] = None
    executor: Annotated[PodSpec | None, Field(description="The executors' pods.")] = None

    @model_validator(mode="after")
    def _together(self) -> Spec:
        if self.replicas is not None and self.autoscaling is not None:
            refuse("`replicas` and `autoscaling` are both there", "remove one: autoscaling sets the replicas")
        if self.schedule is not None and self.run != "untilCaughtUp":
            refuse("`schedule` is for apps that stop", "add run: untilCaughtUp")
        if self.close_windows and self.run != "untilCaughtUp":
            refuse("`closeWindows` is for apps that stop", "add run: untilCaughtUp")
        return self


class Metadata(Model):
    """The object's name; on a cluster also what Kubernetes keeps with it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: Annotated[str, AfterValidator(_object_name), Field(description="The app's name.")]


class Manifest(Model):
    """A stream processing application."""

    api_version: Annotated[str, _word(API_VERSION), Field(description=f"Always {API_VERSION}.")]
    kind: Annotated[str, _word(KIND), Field(description=f"Always {KIND}.")]
    metadata: Metadata
    spec: Spec
    status: Annotated[dict[str, Any] | None, Field(description="Written by the operator; no one else's concern.")] = (
        None
    )
    _checked: tuple[Metadata, Spec, Topology] | None = PrivateAttr(None)
    """The parts that were checked, and the topology made of them: a changed copy has not been checked."""
    _places: Places | None = PrivateAttr(None)

    @property
    def topology(self) -> Topology:
        """Its nodes as a topology, checked. Only manifests from `parse_manifest` and `parse_object` have one.

        Raises:
            ValueError: when it was made in another way, or is a changed copy.
        """
        if self._checked is None or self._checked[0] is not self.metadata or self._checked[1] is not self.spec:
            raise ValueError(f"manifest '{self.name}' has not been checked: make it with parse_object")
        return self._checked[2]

    def with_topology(self, topology: Topology, places: Places) -> Manifest:
        """The same manifest, with the topology that was checked.

        Args:
            topology: its nodes, in which nothing is wrong.
            places: its nodes in the text that it was read from.
        """
        found = self.model_copy()
        found._checked = (found.metadata, found.spec, topology)
        found._places = places
        return found

    def located(self, error: ManifestError) -> ManifestError:
        """The error that was found in it later, with the lines of its text; without lines if it was not a text."""
        return error if self._places is None else ManifestError(self._places.located(error.problems), error.unchecked)

    @property
    def name(self) -> str:
        """The app's name."""
        return self.metadata.name

    @property
    def application_id(self) -> str:
        """Prefix of topics, transactional ids and consumer group."""
        return self.spec.application_id or self.metadata.name

    @property
    def modules(self) -> dict[str, str] | None:
        """The user's code, file name to text; None where the manifest does not have it itself."""
        return self.spec.code.files if self.spec.code is not None else None

    def to_object(self) -> dict[str, Any]:
        """Plain data with only the fields that were given; `parse_object` reads it."""
        found: dict[str, Any] = self.model_dump(by_alias=True, exclude_unset=True, mode="json")
        return found

    def to_yaml(self) -> str:
        """The manifest's text, without comments; `parse_manifest` reads it."""
        return to_yaml(self.to_object(), default_flow_style=None, width=110, allow_unicode=True)
