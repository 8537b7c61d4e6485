# SPDX-License-Identifier: Apache-2.0
"""The plan: all that the runtime is told. It is data, travels as JSON, and says its version."""

from __future__ import annotations

from streamapp.plan.model import (
    PLAN_VERSION,
    InternalTopic,
    KafkaSettings,
    OnBadRecord,
    Plan,
    Store,
    SubTopology,
)

__all__ = ["PLAN_VERSION", "InternalTopic", "KafkaSettings", "OnBadRecord", "Plan", "Store", "SubTopology"]
