# SPDX-License-Identifier: Apache-2.0
"""Words without quotes as `kubectl` reads them, so that a file means the same on a laptop and on a cluster.

`kubectl` reads YAML 1.1 as the library go-yaml 2 does: `y`, `n`, `on` and `off` are true and false, `1e3` is a number,
`1:30` and dates are texts.
"""

from __future__ import annotations

import re

_TRUE = frozenset(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
_FALSE = frozenset(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_SPECIAL = {
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -float("inf")),
}
_INTEGER = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_BASES = (16, 2, 8, 10)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")

Plain = str | bool | int | float | None


def plain_value(text: str) -> Plain:
    """The value of a word without quotes.

    >>> [plain_value(text) for text in ("y", "off", "1e3", "0o17", "1:30", "2024-01-31", "~", "user")]
    [True, False, 1000.0, 15, '1:30', '2024-01-31', None, 'user']
    """
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if text in _SPECIAL:
        return _SPECIAL[text]
    return _number(text)


def _number(text: str) -> Plain:
    digits = text.replace("_", "") if text[0] in "+-0123456789" else text
    integer = _INTEGER.fullmatch(digits)
    if integer is not None:
        value = next(int(part, base) for part, base in zip(integer.groups()[1:], _BASES, strict=True) if part)
        value = -value if integer[1] == "-" else value
        if -(2**63) <= value < 2**64 and not (integer[1] and value >= 2**63):
            return value
    return float(digits) if _FLOAT.fullmatch(digits) else text
