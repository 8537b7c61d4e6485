# SPDX-License-Identifier: Apache-2.0
"""Kubernetes quantities: `500m`, `1.5`, `2Gi`."""

from __future__ import annotations

import re
from decimal import Decimal

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
# Kubernetes has none beyond 2^63; and a fingerprint such as 12e4567890123456 is none.
_SHAPE = re.compile(
    r"([+-]?[0-9]*\.?[0-9]+(?:[eE][+-]?[0-9]{1,2})?)(" + "|".join(sorted(_SUFFIXES, key=len, reverse=True)) + ")"
)
_MIB = Decimal(1024**2)


def quantity(text: object) -> Decimal:
    """The number that a quantity stands for.

    Raises:
        ValueError: when it is none.

    >>> quantity("500m"), quantity("2Gi"), quantity(3), quantity("1e3")
    (Decimal('0.500'), Decimal('2147483648'), Decimal('3'), Decimal('1E+3'))
    """
    match = _SHAPE.fullmatch(str(text).strip())
    if match is None or isinstance(text, bool):
        raise ValueError(f"{text!r} is not a quantity; write e.g. 500m, 2, 1536Mi, 4Gi")
    return Decimal(match[1]) * _SUFFIXES[match[2]]


def mebibytes(text: object) -> int:
    """Whole mebibytes, rounded down.

    >>> mebibytes("1.5Gi")
    1536
    """
    return int(quantity(text) / _MIB)


def same_quantity(one: object, other: object) -> bool:
    """Whether both are quantities and equal: the API server rewrites `1000m` as `1`.

    >>> same_quantity("1000m", "1"), same_quantity("12e4567890123456", "12e4567890123457")
    (True, False)
    """
    try:
        return quantity(one) == quantity(other)
    except ValueError:
        return False
