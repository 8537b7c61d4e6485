# SPDX-License-Identifier: Apache-2.0
"""`explain` as a Mermaid flowchart, which GitHub and many editors draw."""

from __future__ import annotations

from streamapp.nodes import Node
from streamapp.plan import Plan, SubTopology


def explain_mermaid(plan: Plan) -> str:
    """Topics and sub-topologies as a flowchart; stores are cylinders."""
    topics: dict[str, str] = {}
    lines = ["flowchart LR"]
    edges: list[str] = []
    for number, part in enumerate(plan.subtopologies):
        lines.append(f"  subgraph s{number}[{_text(part.name)}]")
        ids = {node.name: f"s{number}n{i}" for i, node in enumerate(part.nodes)}
        for node in part.nodes:
            lines.append(f"    {ids[node.name]}[{_text(node.name, node.operation)}]")
        kept = [(node, store) for node in part.nodes for store in node.stores if store in part.stores]
        for i, (node, store) in enumerate(kept):
            lines.append(f"    s{number}store{i or ''}[({_text(store)})]")
            edges.append(f"  {ids[node.name]} <--> s{number}store{i or ''}")
        lines.append("  end")
        edges += _edges(part, ids, topics)
    lines += [f"  {name}([{_text(topic)}])" for topic, name in topics.items()]
    return "\n".join(lines + edges) + "\n"


def _edges(part: SubTopology, ids: dict[str, str], topics: dict[str, str]) -> list[str]:
    found = []
    for node in part.nodes:
        found += [f"  {_topic(topic, topics)} --> {ids[node.name]}" for topic in _read(node)]
        found += [f"  {ids[name]} --> {ids[node.name]}" for name in node.inputs]
        found += [f"  {ids[node.name]} --> {_topic(topic, topics)}" for topic in node.topics_written]
    return found


def _read(node: Node) -> tuple[str, ...]:
    return node.topics_read if node.pattern_read is None else (f"/{node.pattern_read}/",)


def _topic(topic: str, topics: dict[str, str]) -> str:
    return topics.setdefault(topic, f"t{len(topics)}")


def _text(*lines: str) -> str:
    """The text in Mermaid's quotes; characters that Mermaid would read as markup are written as entities."""
    escaped = [
        line.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;") for line in lines
    ]
    return '"' + "<br/>".join(escaped) + '"'
