# SPDX-License-Identifier: Apache-2.0
"""The reason why a TLS handshake with a broker has failed: whose certificate is wrong, and what to do.

librdkafka reports that the broker's certificate could not be verified, and not why: then we connect once ourselves. A
broker that refuses our certificate says little more than that, so we check our own. None of this needs keys.
"""

from __future__ import annotations

import re
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path

from streamapp.kafka.config import KafkaConfig

LOOK_SECONDS = 5.0
_ADDRESS = re.compile(r"ssl://(?:\[(?P<ipv6>[^\]]+)\]|(?P<name>[^/\s]+?)):(?P<port>\d+)/")
_REFUSED = re.compile(r"alert (?:\w+ )?certificate|alert unknown ca", re.IGNORECASE)
_AUTHORITY = "kafka.tls: `ca.crt` of the Secret, or `caFile`"
_OURS = "kafka.tls: `tls.crt` and `tls.key` of the Secret, or `certificateFile` and `keyFile`"
_EXPIRED, _TOO_EARLY = 10, 9
_UNKNOWN_AUTHORITY = (2, 18, 19, 20, 21)
_WRONG_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_ codes for a wrong name."""


def reason(kafka: KafkaConfig, complaint: str, now: datetime | None = None) -> tuple[str, str] | None:
    """The reason and the fix; None when they cannot be found.

    Args:
        kafka: the Kafka that we have tried to reach, and the settings for it.
        complaint: librdkafka's complaint.
        now: a time in place of the clock's.
    """
    settings = kafka.for_librdkafka()
    try:
        if _REFUSED.search(complaint):
            return _of_ours(settings, now or datetime.now(UTC))
        found = _ADDRESS.search(complaint)
        return None if found is None else _of_theirs(settings, found["ipv6"] or found["name"], int(found["port"]))
    except (OSError, ValueError):  # the broker is gone, or a file cannot be read
        return None


def _of_ours(settings: dict[str, str], now: datetime) -> tuple[str, str]:
    if not {"ssl.certificate.pem", "ssl.certificate.location", "ssl.keystore.location"} & settings.keys():
        return "the broker wants a certificate of ours, and there is none", f"give one and its key ({_OURS})"
    validity = _validity(_pem(settings, "certificate"))
    if validity is not None and now > validity[1]:
        return f"our certificate has expired, on {validity[1]:%Y-%m-%d at %H:%M} UTC", f"renew it ({_OURS})"
    if validity is not None and now < validity[0]:
        return f"our certificate is not valid before {validity[0]:%Y-%m-%d %H:%M} UTC", "check clocks, or renew it"
    return (
        "the broker does not accept our certificate, mostly because it does not know the authority that has signed it",
        f"have the brokers trust that authority, or give another certificate ({_OURS})",
    )


def _of_theirs(settings: dict[str, str], host: str, port: int) -> tuple[str, str] | None:
    try:
        context = ssl.create_default_context(cadata=_pem(settings, "ca"))
        context.verify_flags = ssl.VERIFY_X509_TRUSTED_FIRST  # as librdkafka has it; later Pythons are stricter
        context.check_hostname = settings.get("ssl.endpoint.identification.algorithm") != "none"
        with (
            socket.create_connection((host, port), timeout=LOOK_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return _of_code(error.verify_code, host, error.verify_message)
    except ssl.SSLError as error:
        if isinstance(error, ssl.SSLEOFError) or error.reason in ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL"):
            return f"the server at {host}:{port} speaks no TLS", "check the port, or leave kafka.tls out"
        return None


def _of_code(code: int, host: str, words: str) -> tuple[str, str]:
    if code == _EXPIRED:
        return "the broker's certificate has expired", "have it renewed, and check the clock here"
    if code == _TOO_EARLY:
        return "the broker's certificate is not valid yet", "check the clocks, here and where it was made"
    if code in _UNKNOWN_AUTHORITY:
        message = "the broker's certificate is signed by an authority that we do not know"
        return message, f"give the certificate of that authority ({_AUTHORITY})"
    if code in _WRONG_NAME:
        message = f"the broker's certificate is not for the name {host}"
        return (
            message,
            "connect by a name that it has (bootstrapServers, advertised.listeners), or have it made for this",
        )
    return f"the broker's certificate is not accepted: {words}", f"check it, and that of its authority ({_AUTHORITY})"


def _pem(settings: dict[str, str], what: str) -> str | None:
    """The authority's certificate, or our own; None where the system's is used, or we cannot read it."""
    text, file = settings.get(f"ssl.{what}.pem"), settings.get(f"ssl.{what}.location")
    return text if text is not None or file is None else Path(file).read_text()


def _validity(pem: str | None) -> tuple[datetime, datetime] | None:
    """The begin and the end of the first certificate's validity; None when it cannot be read."""
    found = re.search(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", pem or "", re.DOTALL)
    if found is None:
        return None
    try:
        ((_, certificate),) = _parts(ssl.PEM_cert_to_DER_cert(found[0]))
        fields = _parts(_parts(certificate)[0][1])
        # The fields are version (which may be missing), number, algorithm, issuer, validity, …
        validity = fields[4 if fields[0][0] == 0xA0 else 3][1]
        begin, end = (_moment(tag, text.decode()) for tag, text in _parts(validity))
        return begin, end
    except (ValueError, IndexError):
        return None


def _moment(tag: int, text: str) -> datetime:
    utc_time = 0x17
    return datetime.strptime(text, "%y%m%d%H%M%SZ" if tag == utc_time else "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _parts(der: bytes) -> list[tuple[int, bytes]]:
    """The tags and contents of consecutive DER elements.

    >>> _parts(bytes([2, 1, 7, 4, 2, 65, 66]))
    [(2, b'\\x07'), (4, b'AB')]
    """
    found = []
    while der:
        length, begin = der[1], 2
        if length & 0x80:
            begin += length & 0x7F
            length = int.from_bytes(der[2:begin], "big")
        found.append((der[0], der[begin : begin + length]))
        der = der[begin + length :]
    return found
