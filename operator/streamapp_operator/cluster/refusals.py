# SPDX-License-Identifier: Apache-2.0
"""Tells a refusal of the API server, which stays one however often it is asked, from trouble of its own, which
passes."""

from __future__ import annotations

from streamapp_operator.cluster.errors import KubeError

_CODES = (400, 403, 404, 413, 422)
"""A conflict (409) is none of them: somebody else was quicker."""
_IN_SERVER_ERRORS = (
    "failed to create typed patch object",  # a field that the schema does not have, or a value of another type
    "failed to convert new object",  # a value that its type does not take, as a quantity
    "etcdserver: request is too large",
    "trying to send message larger than max",
)
"""Messages that the API server gives code 500 although the object that it was sent is at fault."""
FORBIDDEN = 403
_OF_THE_MOMENT = ("exceeded quota", "error looking up service account", "it is being terminated")


def is_refusal(error: KubeError) -> bool:
    """Whether the API server will not take the object, as long as the object and the server's rules are the same.

    >>> [code for code in (0, 400, 403, 404, 409, 413, 422, 429, 500, 503) if is_refusal(KubeError(code, ""))]
    [400, 403, 404, 413, 422]
    >>> is_refusal(KubeError(500, "failed to create typed patch object: .spec.x: field not declared in schema"))
    True
    >>> is_refusal(KubeError(500, "etcdserver: request timed out"))
    False
    """
    if error.code == 500:
        return any(words in str(error) for words in _IN_SERVER_ERRORS)
    return error.code in _CODES


def is_of_the_moment(error: KubeError) -> bool:
    """Whether a pod that was only tried is refused for other objects that exist, or do not exist yet, and not for
    itself.

    >>> is_of_the_moment(KubeError(403, 'pods "x" is forbidden: exceeded quota: small, requested: pods=1'))
    True
    >>> is_of_the_moment(KubeError(403, 'pods "x" is forbidden: violates PodSecurity "restricted:latest"'))
    False
    """
    return error.code == FORBIDDEN and any(words in str(error) for words in _OF_THE_MOMENT)
