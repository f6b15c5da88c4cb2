"""Verdicts as JUnit XML: a case per program, counted, whatever characters a program has."""

from xml.etree import ElementTree

from pipeline.base.outputs import Finding, ProgramVerdict
from pipeline.cli.junit import junit_text

FINDING = Finding(
    severity="error", stage="type", code="zip-shape", message="<&\ufffe\x00>", file="p.step", line=1, column=1
)
WARNING = Finding(
    severity="warning", stage="task", code="equal-dims", message="both 4", file="t.yaml", details=("M and N",)
)


def checked(text: str = "", **fields: object) -> ProgramVerdict:
    values = {"task": "t", "task_file": "t.yaml", "program": "p.step", "passed": True, "stage": None, "seconds": 0.25}
    return ProgramVerdict.model_validate({**values, "feedback": text, **fields})


def test_each_program_is_a_case_and_all_are_counted() -> None:
    """Failures have the verdict as text, unusable files are errors, warnings are output with their details."""
    results = [
        checked(warnings=(WARNING,)),
        checked("p.step:1:1: zip-shape", passed=False, stage="type", diagnostics=(FINDING,)),
        checked("t.yaml:3: odd", passed=False, error="t.yaml:3: odd"),
    ]
    root = ElementTree.fromstring(junit_text(results))
    assert root.attrib == {"tests": "3", "failures": "1", "errors": "1", "time": "0.750"}
    good, failed, unusable = root.iter("testcase")
    assert [child.tag for child in good] == ["system-out"] and good.findtext(
        "system-out"
    ) == "t.yaml: warning: equal-dims: both 4\n  M and N"
    failure = failed.find("failure")
    assert failure is not None and failure.attrib["type"] == "type" and failure.text == "p.step:1:1: zip-shape"
    assert failure.attrib["message"] == "zip-shape: <&\ufffd\\x00>"
    assert unusable.findtext("error") == "t.yaml:3: odd"


def test_a_program_of_which_nothing_is_known_is_skipped() -> None:
    """With the reason, and no failure."""
    finding = FINDING.model_copy(update={"code": "time-limit", "message": "took 10 s"})
    slow = checked("p.step: took 10 s", passed=False, unknown=True, stage="run", diagnostics=(finding,))
    root = ElementTree.fromstring(junit_text([slow]))
    assert (root.get("failures"), root.get("skipped")) == ("0", "1")
    (skipped,) = root.iter("skipped")
    assert skipped.attrib == {"message": "time-limit: took 10 s"} and skipped.text == "p.step: took 10 s"
