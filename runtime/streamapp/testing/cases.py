# SPDX-License-Identifier: Apache-2.0
"""A file of test cases, read and checked; nothing runs here.

app: word-count.yaml
cases:
- name: counts words
  steps:
  - send: {topic: text-lines, records: [{value: "a b a"}]}
  - expect: {topic: word-counts, records: [{key: a, value: {count: 2}}, {key: b, value: {count: 1}}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from streamapp.durations import parse_duration
from streamapp.errors import InputError, Invalid, near_miss
from streamapp.manifest.text import Document, dotted, read_text

Row = Mapping[str, Any]
"""A record as `streamapp consume --json` shows it and `streamapp produce --json` takes it."""

_KEY_AND_VALUE = ("key", "value", "keyBase64", "valueBase64")
SENT_FIELDS = (*_KEY_AND_VALUE, "headers", "timestamp", "partition")
EXPECTED_FIELDS = ("key", "value", "headers", "timestamp", "partition")


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Send(_Spec):
    """Records that are written to a topic in one transaction, and processed to the last one."""

    topic: str
    records: list[dict[str, Any]] = Field(min_length=1)


class Expect(_Spec):
    """All records that the topic got since the last `expect` on it; with order `last` the last record of each key."""

    topic: str
    records: list[dict[str, Any]]
    order: Literal["key", "exact", "any", "last"] = "key"

    @model_validator(mode="after")
    def _last_of_each_key(self) -> Expect:
        if self.order != "last":
            return self
        keys = [json.dumps(record["key"], sort_keys=True) for record in self.records if "key" in record]
        if len(keys) < len(self.records):
            raise ValueError("order 'last' compares the last record of each key: name the key of each record")
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f"order 'last' expects one record of a key: here are {keys.count(key)} of key {key}")
        return self


class Store(_Spec):
    """The rows that a store shows for a key: the columns of the only row, or all rows."""

    name: str
    key: Any
    value: dict[str, Any] | None = None
    rows: list[dict[str, Any]] | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The text of each column of the key."""
        parts = self.key if isinstance(self.key, list) else [self.key]
        return tuple(part if isinstance(part, str) else str(part) for part in parts)


class Nothing(_Spec):
    """A step that has no settings: {}."""


Count = Annotated[int, Field(ge=1, le=16)]


class Step(_Spec):
    """A step of a case; exactly one of its fields is set."""

    send: Send | None = None
    expect: Expect | None = None
    store: Store | None = None
    crash: Nothing | None = None
    restart: Nothing | None = None
    scale: Count | None = None
    upgrade: str | None = None
    advance: Any = None
    """The duration by which event time goes on."""

    @property
    def advance_ms(self) -> int:
        """The same in milliseconds."""
        return parse_duration(self.advance)

    @property
    def kind(self) -> str:
        """The name of the field that is set."""
        return next(name for name in _KINDS if getattr(self, name) is not None)


_KINDS = tuple(Step.model_fields)


class Case(_Spec):
    """The steps of one app, which begins with empty topics."""

    name: str = Field(min_length=1)
    app: str | None = None
    partitions: Count = 1
    steps: list[Step] = Field(min_length=1)


class _File(_Spec):
    app: str | None = None
    cases: list[Case] = Field(min_length=1)


@dataclass(frozen=True)
class CaseFile:
    """A file that was read, with the places of its steps."""

    path: Path
    cases: tuple[Case, ...]
    lines: Mapping[tuple[int, int], int]
    """The line of each step, by the number of its case and its own number in the case."""

    def app_of(self, case: Case) -> Path:
        """The manifest that a case begins with."""
        assert case.app is not None
        return self.path.parent / case.app

    def apps(self) -> tuple[Path, ...]:
        """All manifests that the file names, each once."""
        found = [self.app_of(case) for case in self.cases]
        found += [self.path.parent / step.upgrade for case in self.cases for step in case.steps if step.upgrade]
        return tuple(dict.fromkeys(found))


class CaseError(InputError):
    """A file of cases cannot be run; `problems` has a line for each thing that is wrong with it."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


def read_cases(text: str, path: Path) -> CaseFile:
    """The cases of a YAML text.

    Raises:
        CaseError: with everything that is wrong with it.
    """
    if not text.strip():
        raise CaseError([f"{path}: is empty; begin with `app: FILE` and `cases:`"])
    document = read_text(text)
    problems = [f"{path}: {problem}" for problem in document.problems]
    problems += [
        f"{path}: `{dotted(where)}`: {message}{f'; {fix}' if fix else ''} (line {line})"
        for where, message, fix, line in document.faults
    ]
    if problems:
        raise CaseError(problems)
    data = document.data
    if not isinstance(data, dict):
        raise CaseError([f"{path}: a file of cases is a map with `app` and `cases`"])
    try:
        file = _File.model_validate(_with_texts(data, document, ()))
    except ValidationError as error:
        raise CaseError([f"{path}: {line}" for line in _complaints(error, data, document)]) from None
    cases = tuple(case if case.app else case.model_copy(update={"app": file.app}) for case in file.cases)
    problems = [f"{path}: {line}" for line in _meaning(cases, document)]
    if problems:
        raise CaseError(problems)
    lines = {
        (i, j): document.line(("cases", i, "steps", j)) or 0
        for i, case in enumerate(cases)
        for j in range(len(case.steps))
    }
    return CaseFile(path, cases, lines)


def _with_texts(value: Any, document: Document, path: tuple[str | int, ...]) -> Any:
    """The same value, with keys and values of records as text where they are plain words: `y` is a text, `1.50` too."""
    if isinstance(value, dict):
        return {key: _with_texts(each, document, (*path, key)) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_texts(each, document, (*path, i)) for i, each in enumerate(value)]
    of_a_record = (len(path) == 8 and path[5] == "records") or path[-2:] == ("store", "key")
    if of_a_record and path[-1] in ("key", "value") and value is not None:
        return document.written.get(path, value)
    return value


def _meaning(cases: tuple[Case, ...], document: Document) -> Iterator[str]:
    seen: set[str] = set()
    for i, case in enumerate(cases):
        here = ("cases", i)
        if case.name in seen:
            yield _at(here, document, f"there are two cases named '{case.name}'; give each a name of its own")
        seen.add(case.name)
        if case.app is None:
            yield _at(here, document, f"case '{case.name}' names no `app`; add app: FILE here or at the top")
        for j, step in enumerate(case.steps):
            place = (*here, "steps", j)
            given = [name for name in _KINDS if getattr(step, name) is not None]
            if len(given) != 1:
                many = f"has {' and '.join(f'`{name}`' for name in given)}" if given else "is empty"
                yield _at(place, document, f"{many}; a step is one of {', '.join(_KINDS)}")
                continue
            yield from _fields(step, place, document)
            if step.advance is not None and (wrong := _no_duration(step.advance)):
                yield _at((*place, "advance"), document, wrong)
            if step.store is not None and (step.store.value is None) == (step.store.rows is None):
                yield _at(place, document, "`store` needs one of `value`, for a key with one row, and `rows`")


def _fields(step: Step, place: tuple[str | int, ...], document: Document) -> Iterator[str]:
    """A message for each unknown field of a step's records."""
    part, known = (step.send, SENT_FIELDS) if step.send is not None else (step.expect, EXPECTED_FIELDS)
    for k, record in enumerate(part.records if part is not None else ()):
        for name in record.keys() - set(known):
            where = (*place, step.kind, "records", k, name)
            fix = near_miss(name, known) or f"there are: {', '.join(known)}"
            yield _at(where, document, f"unknown field `{name}`; {fix}")


def _no_duration(given: Any) -> str:
    """The reason why event time cannot go on by this duration; empty where it can."""
    if isinstance(given, dict) and "processing" in given:
        return "the clock's time cannot be moved, as no timers go by it in this version; write e.g. advance: 1 hour"
    try:
        moved = parse_duration(given if isinstance(given, str) else json.dumps(given))
    except Invalid as error:
        return str(error)
    return "" if moved else "moves nothing; write e.g. advance: 1 hour"


def _complaints(error: ValidationError, data: Any, document: Document) -> Iterator[str]:
    for complaint in error.errors(include_url=False):
        where = complaint["loc"]
        name = str(where[-1]) if where else ""
        if complaint["type"] == "extra_forbidden":
            known = _known(where)
            fix = near_miss(name, known) or f"there are: {', '.join(known)}"
            yield _at(where, document, f"unknown field `{name}`; {fix}")
        elif complaint["type"] == "missing":
            yield _at(where[:-1], document, f"`{name}` is missing; add it")
        else:
            seen = complaint["input"]
            yield _at(where, document, f"{complaint['msg'][:1].lower()}{complaint['msg'][1:]}, and it is {seen!r}")


_PARTS: Mapping[str, type[BaseModel]] = {
    "cases": Case,
    "steps": Step,
    "send": Send,
    "expect": Expect,
    "store": Store,
}


def _known(where: tuple[str | int, ...]) -> list[str]:
    """The known fields at the place of an unknown one."""
    owner: type[BaseModel] = _File
    for part in where[:-1]:
        if not isinstance(part, int):
            owner = _PARTS.get(part, Nothing)
    return list(owner.model_fields)


def _at(where: tuple[str | int, ...], document: Document, message: str) -> str:
    line = document.line(where)
    place = f"`{dotted(where)}`: " if where else ""
    return f"{place}{message}" + (f" (line {line})" if line else "")
