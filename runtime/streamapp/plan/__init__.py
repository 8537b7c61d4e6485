# SPDX-License-Identifier: Apache-2.0
"""The plan: the whole input of the runtime. It is data, travels as JSON, and has a version."""

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
