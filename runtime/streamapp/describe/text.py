# SPDX-License-Identifier: Apache-2.0
"""`explain` for a terminal: one line for each node, in the order of the records, with its readers."""

from __future__ import annotations

from streamapp.describe import words
from streamapp.durations import format_duration
from streamapp.errors import shorten
from streamapp.plan import InternalTopic, Plan, Store, SubTopology

Row = tuple[str, ...]


def explain_text(plan: Plan) -> str:
    """The plan as text: sub-topologies with their nodes, stores, internal topics."""
    lines = [
        f"{plan.name}: {plan.guarantee}, an epoch every {format_duration(plan.epoch_interval_ms)}, "
        f"{plan.max_parallelism} state partitions"
    ]
    depths = words.depths(plan)
    for part in plan.subtopologies:
        lines += [
            "",
            _heading(part, depths[part.name]),
            *_table([_node(part, i) for i in range(len(part.nodes))]),
        ]
    if plan.stores:
        lines += ["", "stores", *_table([_store(plan, store) for store in plan.stores])]
    lines += ["", "internal topics", *_table([_topic(topic) for topic in plan.topics])]
    return "\n".join(lines) + "\n"


def _heading(part: SubTopology, depth: int) -> str:
    if part.stateful:
        keeping = [node.name for node in part.nodes if set(node.stores) & set(part.stores)]
        state = f"state of {', '.join(keeping)}, by {words.key_of(part.stateful[0], part.topology)}"
    else:
        state = "no state"
    plural = "s" if depth > 1 else ""
    hops = f", {depth} hop{plural} from the sources (+{depth} epoch{plural})"
    return f"sub-topology {part.name}: {state}" + (hops if depth else "")


def _node(part: SubTopology, place: int) -> Row:
    node, topology = part.nodes[place], part.topology
    readers = ", ".join(consumer.name for consumer in topology.consumers(node.name))
    mark = "■" if node.name in part.stateful else " "
    return (
        f" {mark} {node.name}",
        node.operation,
        f"→ {readers}" if readers else "",
        shorten(words.details(node, topology)),
    )


def _store(plan: Plan, store: Store) -> Row:
    topology = plan.subtopology(store.subtopology).topology
    return (
        f"   {store.name}",
        f"of {store.node}",
        f"by {words.key_of(store.node, topology)}",
        f"{store.partitions} partitions",
        f"changelog {store.changelog_topic}",
        f"fingerprint {store.fingerprint}",
    )


def _topic(topic: InternalTopic) -> Row:
    plural = "" if topic.partitions == 1 else "s"
    settings = ", ".join(f"{key}={value}" for key, value in topic.configs)
    return (f"   {topic.name}", topic.role, f"{topic.partitions} partition{plural}", settings)


def _table(rows: list[Row]) -> list[str]:
    """Rows with aligned columns, without space at their ends."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip() for row in rows]
