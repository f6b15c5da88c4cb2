"""Verdicts as JUnit XML, which build servers show as tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from pipeline.base.text import visible
from step_runtime.verification.verdict import Verdict

# What XML 1.0 can't hold, however it is written.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_text(verdicts: Sequence[Verdict]) -> str:
    """One suite with a test case for every program.

    A failed program is a failure, one of which nothing is known is skipped, and an unusable file is an error.
    """
    counts = {
        "tests": str(len(verdicts)),
        "failures": str(sum(verdict.failed for verdict in verdicts)),
        "errors": str(sum(verdict.error is not None for verdict in verdicts)),
        "time": f"{sum(verdict.seconds for verdict in verdicts):.3f}",
    }
    if unknown := sum(verdict.unknown for verdict in verdicts):
        counts["skipped"] = str(unknown)
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": "pipeline.verify", **counts})
    for verdict in verdicts:
        _case(suite, verdict)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, verdict: Verdict) -> None:
    attributes = {
        "classname": clean(verdict.task),
        "name": clean(verdict.program or verdict.task_file),
        "file": clean(verdict.program or verdict.task_file),
        "time": f"{verdict.seconds:.3f}",
    }
    case = ElementTree.SubElement(suite, "testcase", attributes)
    if verdict.error is not None:
        ElementTree.SubElement(case, "error", {"message": _first_line(verdict.error)}).text = clean(verdict.error)
    elif verdict.unknown:
        ElementTree.SubElement(case, "skipped", {"message": _first_line(_reason(verdict))}).text = clean(
            verdict.feedback
        )
    elif not verdict.passed:
        attributes = {"type": verdict.stage or "", "message": _first_line(_reason(verdict))}
        ElementTree.SubElement(case, "failure", attributes).text = clean(verdict.feedback)
    if verdict.warnings:
        ElementTree.SubElement(case, "system-out").text = clean("\n".join(verdict.warned()))


def _reason(verdict: Verdict) -> str:
    found = (*verdict.diagnostics, *verdict.warnings)
    return f"{found[0].code}: {found[0].message}" if found else verdict.stage or ""


def _first_line(text: str) -> str:
    return clean(text.partition("\n")[0])


def clean(text: str) -> str:
    """The text with visible escapes for characters that XML can't hold or a terminal would act on."""
    return _NOT_XML.sub("\ufffd", visible(text))
