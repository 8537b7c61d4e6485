# SPDX-License-Identifier: Apache-2.0
"""Several streams as one: the rows of the merged stream, and how each stream's rows become such rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from streamapp import operations as o
from streamapp.errors import ManifestError, Problem
from streamapp.spark.flow import ORDER_TIME, Flow


def merged(node: o.Merge, flows: Sequence[Flow]) -> tuple[Flow, list[list[Column]]]:
    """The flow of the merged stream, without a frame yet, and each stream's physical columns as that flow has them.

    Raises:
        ManifestError: when a column does not have the same type in all streams.
    """
    first = flows[0]
    fields = tuple(f for f in first.fields if all(f in other.fields for other in flows))
    same_key = all([name for name, _ in other.key] == [name for name, _ in first.key] for other in flows)
    every = {name.lower(): name for flow in reversed(flows) for name in reversed(flow.columns)}
    columns = tuple(every.values()) if node.cogroup is not None else first.columns
    hopped = any(flow.hopped for flow in flows)
    key = first.key if same_key else ()
    whole = replace(first, columns=columns, fields=fields, key=key, hopped=hopped, packed=None, carried=())
    sources = [_sources(whole, flow) for flow in flows]
    schemas = [{field.name.lower(): field.dataType for field in flow.schema()} for flow in flows]
    types = {name: _type(node, name, first, sources, schemas) for name in whole.row()}
    rows = [
        [
            (flow.physically(source[name]) if name in source else F.lit(None).cast(types[name])).alias(name)
            for name in whole.physical()
        ]
        for flow, source in zip(flows, sources, strict=True)
    ]
    return whole, rows


def _sources(whole: Flow, flow: Flow) -> dict[str, str]:
    """The physical columns of one of the streams, by those of the merged stream."""
    keys = dict(zip((there for _, there in whole.key), (here for _, here in flow.key), strict=False))
    has = {name.lower() for name in replace(flow, carried=()).physical()}
    found = {name: keys.get(name, name) for name in whole.physical()}
    if whole.hopped:
        found[ORDER_TIME] = flow.order_time
    return {name: source for name, source in found.items() if source.lower() in has}


def _type(
    node: o.Merge,
    name: str,
    first_flow: Flow,
    sources: Sequence[dict[str, str]],
    schemas: Sequence[dict[str, DataType]],
) -> DataType:
    types = {
        sourced: schema[source[name].lower()]
        for sourced, source, schema in zip(node.sources, sources, schemas, strict=True)
        if name in source
    }
    (one, first), *others = types.items()
    for other, found in others:
        if found.simpleString() != first.simpleString():
            keys = {physical: key for key, physical in first_flow.key}
            in_one, in_other = (f"'{one}'", f"'{other}'") if node.cogroup is None else ("one stream", "another")
            called = f"`{keys.get(name, name)}`"
            message = f"{called} is {first.simpleString()} in {in_one} and {found.simpleString()} in {in_other}"
            fix = f"cast one of them in a `with` node before, e.g. to {first.simpleString()}"
            raise ManifestError(
                (Problem(node.owner, "merge" if node.cogroup is None else "groupBy", None, message, fix),)
            )
    return first
