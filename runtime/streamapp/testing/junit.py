# SPDX-License-Identifier: Apache-2.0
"""Results of test cases as JUnit's XML, which CI systems read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from xml.etree import ElementTree


@dataclass(frozen=True)
class Result:
    """The result of a case."""

    file: str
    case: str
    seconds: float
    problem: tuple[str, ...] = ()
    """The lines about the problem; none: the case has passed."""
    broke: bool = False
    """Whether the run itself failed (broker, engine), so that the result says nothing about the app."""


def junit_xml(results: Sequence[Result]) -> str:
    """The XML: one suite per file, one test case per case.

    >>> print(junit_xml([Result("a.yaml", "counts", 1.25, ("step 2: wrong",))]))
    <?xml version='1.0' encoding='utf-8'?>
    <testsuites>
      <testsuite name="a.yaml" tests="1" failures="1" errors="0" time="1.250">
        <testcase classname="a.yaml" name="counts" time="1.250">
          <failure message="step 2: wrong">step 2: wrong</failure>
        </testcase>
      </testsuite>
    </testsuites>
    """
    root = ElementTree.Element("testsuites")
    for file, group in groupby(results, key=lambda result: result.file):
        root.append(_suite(file, list(group)))
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text.decode()


def _suite(file: str, results: Iterable[Result]) -> ElementTree.Element:
    cases = list(results)
    failed = [case for case in cases if case.problem]
    suite = ElementTree.Element(
        "testsuite",
        name=file,
        tests=str(len(cases)),
        failures=str(sum(not case.broke for case in failed)),
        errors=str(sum(case.broke for case in failed)),
        time=f"{sum(case.seconds for case in cases):.3f}",
    )
    for case in cases:
        element = ElementTree.SubElement(suite, "testcase", classname=file, name=case.case, time=f"{case.seconds:.3f}")
        if case.problem:
            kind = "error" if case.broke else "failure"
            ElementTree.SubElement(element, kind, message=case.problem[0]).text = "\n".join(case.problem)
    return suite
