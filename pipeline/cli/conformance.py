"""The conformance report of a language, in words and as JUnit XML."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from pipeline.base.language_outputs import ConformanceCase, LanguageCheckOutput
from pipeline.base.text import counted
from pipeline.cli.junit import clean


def as_text(report: LanguageCheckOutput) -> str:
    """A line for each property, its broken or skipped cases below it, and the sum."""
    return "\n".join(_lines(report))


def _lines(report: LanguageCheckOutput) -> Iterator[str]:
    runs = "runs programs as code, in isolated workers" if report.executes else "interprets programs"
    yield f"{report.language} {report.version}: {runs}; stages {', '.join(report.stages)}"
    for name in dict.fromkeys(case.property for case in report.cases):
        cases = [case for case in report.cases if case.property == name]
        held = sum(case.outcome == "held" for case in cases)
        broken = any(case.outcome == "broken" for case in cases)
        yield f"{'broken' if broken else 'held' if held else 'skipped':8}{name}: {held} of {len(cases)}"
        yield from (f"  {case.outcome}: {case.name}: {case.message}" for case in cases if case.outcome != "held")
    if report.cold_seconds is not None and report.warm_seconds is not None:
        yield f"a verdict: {report.cold_seconds:.2f} s at first, {1000 * report.warm_seconds:.1f} ms later (median)"
    skipped = f", {report.skipped} skipped" if report.skipped else ""
    yield f"{counted(len(report.cases), 'case')}: {report.held} held, {report.broken} broken{skipped}"


def junit_report(report: LanguageCheckOutput) -> str:
    """One suite with a test case for each case; a broken case is a failure."""
    counts = {
        "tests": str(len(report.cases)),
        "failures": str(report.broken),
        "errors": "0",
        "skipped": str(report.skipped),
        "time": f"{sum(case.seconds for case in report.cases):.3f}",
    }
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": f"language {report.language}", **counts})
    for case in report.cases:
        _case(suite, case)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, case: ConformanceCase) -> None:
    attributes = {"classname": clean(case.property), "name": clean(case.name), "time": f"{case.seconds:.3f}"}
    element = ElementTree.SubElement(suite, "testcase", attributes)
    if case.outcome != "held":
        kind = "failure" if case.outcome == "broken" else "skipped"
        ElementTree.SubElement(element, kind, {"message": clean(case.message.partition("\n")[0])})
