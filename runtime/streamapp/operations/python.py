# SPDX-License-Identifier: Apache-2.0
"""`python`: replaces the columns by what a function of the user's returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, Field

from streamapp.errors import Invalid, Problem
from streamapp.fields import Model, one_of, refuse
from streamapp.formats.ddl import fields_of
from streamapp.modules import split_function
from streamapp.nodes import Columns, OneInput, Origins, Topology
from streamapp.operations.making import Making
from streamapp.operations.steps import Steps, given
from streamapp.origins import without_value
from streamapp.outline import Outline
from streamapp.scope import fixed_keys

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

MODES = ("row", "pandas", "arrow")
"""The kinds of input that a function of the user's may have."""


def _function(text: str) -> str:
    try:
        split_function(text)
    except Invalid as error:
        refuse(error.message, error.fix)
    return text


def _schema(text: str) -> str:
    try:
        fields_of(text)
    except Invalid as error:
        refuse(f"schema '{text}': {error.message}", error.fix)
    return text


class PythonSpec(Model):
    """A function of the user's."""

    function: Annotated[
        str,
        AfterValidator(_function),
        Field(description="MODULE:FUNCTION, of a module in spec.code, or without that of one in the image."),
    ]
    mode: Annotated[
        str,
        BeforeValidator(lambda value: one_of(value, MODES)),
        Field(
            description="The form of the function's input and result. `row`: a dict, for a dict, a list of them, or "
            "None. `pandas`: a DataFrame, for one whose index says of which row each came. `arrow`: a RecordBatch, for "
            "one of as many rows.",
            json_schema_extra={"enum": list(MODES)},
        ),
    ] = "row"
    schema_: Annotated[
        str,
        AfterValidator(_schema),
        Field(alias="schema", description="The columns it returns as Spark DDL, e.g. `user STRING, score DOUBLE`."),
    ]


Given = Annotated[PythonSpec | None, Field(description="Replaces the columns by what a function returns.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Python(OneInput):
    """Calls a function of the user's for each record, or each batch of them: its results replace the value's columns.

    On a stream a record may become none or several; on a table one that becomes none is deleted.
    """

    function: str
    """`module:name`."""
    mode: str
    """`row`, `pandas` or `arrow`: the form of the function's input and output."""
    schema: str
    """The columns that it returns, as Spark's DDL."""

    operation: ClassVar[str] = "python"
    outline: ClassVar[Outline] = Outline(aside=(("python", "mode"),))

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        assert spec.python is not None
        return (cls(spec.name, making.input, spec.python.function, spec.python.mode, spec.python.schema_),)

    @property
    def functions(self) -> tuple[str, ...]:
        return (self.function,)

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return inputs[0].with_values(tuple(name for name, _ in fields_of(self.schema)))

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"{', '.join(name for name, _ in fields_of(self.schema))} = {self.function}, by {self.mode}"

    def check(self, topology: Topology) -> Iterator[Problem]:
        keys = fixed_keys(topology.columns(self.input))
        for name, _ in fields_of(self.schema):
            if name.lower() in keys:
                yield Problem(
                    self.name,
                    "python.schema",
                    self.schema,
                    f"column `{name}` is part of the key, which stays as it is here",
                    "leave it out, or use another name and keyBy after it",
                )

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        returned = ((name.lower(), kind) for name, kind in fields_of(self.schema))
        return {
            **without_value(inputs[0], before[0]),
            **{name: ("function", kind, f"{self.function}.{name}") for name, kind in returned},
        }


class PythonStep(Steps):
    """The builder's method."""

    def python(self, name: str, function: str, *, schema: str, mode: str | None = None) -> Self:
        """Calls a function of yours, `module:name`, for each record or batch; its results replace the columns.

        >>> from streamapp.builder import StreamBuilder
        >>> lines = StreamBuilder("app").stream("lines", topic="text")
        >>> sizes = lines.python("sizes", "text:size", schema="size INT")
        >>> sizes.builder.build().spec.topology[1].python.function
        'text:size'
        """
        found: Self = self._then(name, python=given(function=function, mode=mode, schema=schema))
        return found
