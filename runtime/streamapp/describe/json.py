# SPDX-License-Identifier: Apache-2.0
"""`explain` for programs: the plan's parts with what else is known of them."""

from __future__ import annotations

import json
from typing import Any

from streamapp.describe import words
from streamapp.plan import Plan, SubTopology


def explain_json(plan: Plan) -> str:
    """A JSON object with `subtopologies`, `stores`, `topics`; fields are only ever added to it."""
    depths = words.depths(plan)
    found = {
        "name": plan.name,
        "applicationId": plan.application_id,
        "guarantee": plan.guarantee,
        "maxParallelism": plan.max_parallelism,
        "subtopologies": [_part(part, depths[part.name]) for part in plan.subtopologies],
        "stores": [
            {
                "name": store.name,
                "node": store.node,
                "subtopology": store.subtopology,
                "key": list(plan.subtopology(store.subtopology).topology.key_columns(store.node)),
                "changelog": store.changelog_topic,
                "partitions": store.partitions,
                "fingerprint": store.fingerprint,
            }
            for store in plan.stores
        ],
        "topics": [
            {"name": t.name, "role": t.role, "partitions": t.partitions, "configs": dict(t.configs)}
            for t in plan.topics
        ],
    }
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _part(part: SubTopology, depth: int) -> dict[str, Any]:
    topology = part.topology
    nodes = []
    for node in part.nodes:
        columns = topology.columns(node.name)
        entry: dict[str, Any] = {
            "name": node.name,
            "operation": node.operation,
            "details": words.details(node, topology),
            "inputs": list(node.inputs),
            "kind": topology.kind(node.name).lower(),
            "key": list(columns.key),
            "columns": list(columns.value),
        }
        if node.source or node.sink:
            entry["topics"] = [*node.topics_read, *node.topics_written]
        if node.source and not node.internal:
            entry["pattern"] = node.pattern_read
        nodes.append(entry)
    return {
        "name": part.name,
        "stateful": list(part.stateful),
        "task": list(part.task),
        "outputMode": part.output_mode,
        "stores": list(part.stores),
        "hops": depth,
        "nodes": nodes,
    }
