# SPDX-License-Identifier: Apache-2.0
"""The risk of a payment: rules as plain Python."""

from typing import Any

from rules import AT_HOME, LARGE


def score(payment: dict[str, Any]) -> dict[str, Any] | None:
    """A payment's risk from 0 to 1 with the reasons; None if the record is not a payment."""
    if payment["card"] is None or payment["amount"] is None:
        return None
    reasons = []
    if payment["amount"] >= LARGE:
        reasons.append(f"{payment['amount']:.0f} is {payment['amount'] / LARGE:.1f} times what is large")
    if payment["country"] not in AT_HOME:
        reasons.append(f"paid in {payment['country']}")
    return {"card": payment["card"], "risk": min(1.0, 0.4 * len(reasons)), "reasons": reasons}
