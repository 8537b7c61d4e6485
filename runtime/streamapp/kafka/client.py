# SPDX-License-Identifier: Apache-2.0
"""The common part of all confluent-kafka clients here: a quiet log, and errors that a person can act on.

librdkafka retries for ever by itself and writes its troubles only to a log. `Troubles` collects the last one,
so that a call that ran out of time can say why.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from streamapp.errors import RunError
from streamapp.kafka import tls
from streamapp.kafka.config import KafkaConfig

ANSWER_SECONDS = 8.0
"""How long a broker may take to answer before it counts as unreachable."""

C = TypeVar("C")
_log = logging.getLogger("streamapp.kafka")
_log.addHandler(logging.NullHandler())
_log.propagate = False

_FIXES = {
    KafkaError._AUTHENTICATION: "check mechanism, user and password",
    KafkaError._SSL: "check that the brokers speak TLS there, that their certificate has the host's name and is not "
    "out of date, that of the authority that has signed it, and our own",
    KafkaError._RESOLVE: "check the address",
}
_UNUSABLE = {
    "key values mismatch": "the private key does not belong to the certificate; take both from the same place",
    "ssl.key.": "the private key cannot be read; it must be a PEM block as it was issued, whole and not encrypted",
    "ssl.certificate.": "our certificate cannot be read; it must be a PEM block as it was issued, whole",
    "ssl.ca.": "the certificate of the authority cannot be read; it must be a PEM block as it was issued, whole",
    "ssl.keystore.": "the key store cannot be read; check file and password",
}
"""Explanations by librdkafka's complaint about settings that it cannot make a client from."""
_PLAIN_WORDS = {
    KafkaError._AUTHENTICATION: "it does not accept the credentials",
    KafkaError._SSL: "the TLS handshake failed",
    KafkaError._RESOLVE: "the host name is unknown",
    KafkaError._TRANSPORT: "no connection",
    KafkaError._ALL_BROKERS_DOWN: "no connection",
}

_COUNTED = re.compile(r" \(after \d+ms in state .*\)")
"""The part of a complaint that differs each time: with it, a comparison would take an old complaint for a new one."""


_NO_TOKEN = "Failed to acquire SASL OAUTHBEARER token: "
_TOKEN_FIX = (
    "check kafka.sasl: tokenEndpoint, clientId and clientSecret, and that its certificate is of an authority that the "
    "system knows, or that of kafka.tls"
)


class Troubles:
    """The most telling complaint a client has made so far."""

    def __init__(self) -> None:
        self._last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        if self._last is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last = error

    @property
    def _code(self) -> int | None:
        """The code of the complaint; `_SSL` for every error of OpenSSL. A broker that refuses our certificate just
        hangs up, and the complaint then has another code."""
        if self._last is None:
            return None
        return KafkaError._SSL if "SSL routines" in self._last.str() else self._last.code()

    @property
    def _no_token(self) -> str | None:
        """The reason why there is no token, where that is the trouble."""
        complaint = "" if self._last is None else self._last.str()
        return complaint.removeprefix(_NO_TOKEN) if complaint.startswith(_NO_TOKEN) else None

    @property
    def fatal(self) -> bool:
        """Whether further tries are pointless: the address or the credentials must change first."""
        return self._code in (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE)

    def fix(self) -> str:
        if self._no_token is not None:
            return _TOKEN_FIX
        found = None if self._code is None else _FIXES.get(self._code)
        return found or "check that it runs and that the address is right"

    def of_tls(self) -> str | None:
        """The complaint, where it comes from a TLS handshake."""
        complaint = "" if self._last is None else self._last.str()
        return complaint if self._code == KafkaError._SSL or "in state SSL_HANDSHAKE" in complaint else None

    def words(self) -> str:
        if self._last is None:
            return "no answer"
        if self._no_token is not None:
            return f"the endpoint of tokens has none for us ({self._no_token})"
        plain = _PLAIN_WORDS.get(self._code) if self._code is not None else None
        complaint = _COUNTED.sub("", self._last.str())
        detail = complaint.split(": ", 2)[-1]
        return f"{plain} ({detail})" if plain else complaint


def client_settings(kafka: KafkaConfig, troubles: Troubles, **more: Any) -> dict[str, Any]:
    """The settings of a client, without its own metrics, which nobody reads here. Their histograms take two thirds of a
    client's memory, and the operator has one client for each app that autoscales."""
    return {
        **kafka.for_librdkafka(),
        "client.id": "streamapp",
        "error_cb": troubles,
        "logger": _log,
        "reconnect.backoff.max.ms": 1000,
        "enable.metrics.push": False,
        **more,
    }


def make_client(make: Callable[[dict[str, Any]], C], kafka: KafkaConfig, troubles: Troubles, **more: Any) -> C:
    """A client of one of librdkafka's kinds. It has not asked a broker yet.

    Raises:
        RunError: when no client can be made from these settings.
    """
    try:
        return make(client_settings(kafka, troubles, **more))
    except KafkaException as error:
        complaint = error.args[0].str()
        why = next((words for word, words in _UNUSABLE.items() if word in complaint), "check them")
        detail = complaint.split(": ", 1)[-1]
        raise RunError(
            f"the settings for Kafka at {kafka.bootstrap_servers} cannot be used: {why} ({detail})"
        ) from None


def unreachable(kafka: KafkaConfig, troubles: Troubles) -> RunError:
    """The error for a Kafka that does not answer. If a handshake has failed, this takes some seconds: a broker is asked
    once more, for the reason."""
    complaint = troubles.of_tls()
    why = None if complaint is None else tls.reason(kafka, complaint)
    reason = f"the TLS handshake failed: {why[0]}; {why[1]}" if why else f"{troubles.words()}; {troubles.fix()}"
    return RunError(f"no Kafka broker answers at {kafka.bootstrap_servers}: {reason}")


def is_unreachable(error: KafkaException) -> bool:
    return error.args[0].code() in (
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.REQUEST_TIMED_OUT,
    )
