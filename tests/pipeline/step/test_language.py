"""STeP behind the seam gives what it gave before there was one: the digests below were taken then.

Those of prompts, requests and programs change with the prompts and the options; here both roads are compared.
"""

import hashlib
import json
from pathlib import Path

from pipeline.agent.agent import Agent
from pipeline.agent.compiled import save_program
from pipeline.agent.domain import language_domain
from pipeline.base.config import RunConfig
from pipeline.base.files import DATA
from pipeline.languages import registry
from pipeline.languages.language import Language
from pipeline.record.request import Request
from signatures import extract_program
from step_runtime.base.errors import STAGES
from step_runtime.verification.verify import verify
from tests.support import completions
from tests.support.scripted_answers import BROKEN, ILL_TYPED, REUSING, RIGHT, WRONG, task

STEP = registry.find("step")
ANSWERS = (RIGHT, REUSING, WRONG, ILL_TYPED, BROKEN)


def digest(*texts: object) -> str:
    return hashlib.sha256(json.dumps([*map(str, texts)]).encode()).hexdigest()[:16]


def test_it_is_a_language_of_the_seam() -> None:
    """With the verifier's stages, and programs that are interpreted."""
    assert isinstance(STEP, Language)
    assert (STEP.name, tuple(STEP.stages), STEP.executes) == ("step", STAGES, False)


def test_keys_are_as_they_were() -> None:
    """By which programs are grouped, and counted as distinct."""
    programs = [*ANSWERS, *(path.read_text() for path in sorted((DATA / "oracles").rglob("*.step")))]
    group = language_domain(None).grouping_key
    assert group is not None
    assert digest(*(group({"impl": text}) for text in programs)) == "bc0a04885c307d84"
    assert [STEP.key(None, text) for text in programs] == [group({"impl": text}) for text in programs]


def test_verdicts_are_as_they_were() -> None:
    """Of right and wrong programs, in the words that an LM reads."""
    found = [verify(task(), text) for text in ANSWERS]
    assert (
        digest(*((v.stage, v.render(text, "square/0")) for v, text in zip(found, ANSWERS, strict=True)))
        == "806ec51ca8263d38"
    )
    assert [STEP.judge(task(), text, None) for text in ANSWERS] == found


def test_records_and_programs_do_not_name_the_default_language(tmp_path: Path) -> None:
    """They are byte for byte what they were without the seam."""
    config = RunConfig.of({"optimizer": "adaptive", "samples": 4, "seed": 3})
    assert "language" not in Request(config, "embedded", [task()]).to_json().partition('"tasks"')[0]
    assert "language" not in config.params()
    save_program(Agent("gated", refine=1), tmp_path / "program.json", {"run_id": "x"})
    assert "language" not in json.loads((tmp_path / "program.json").read_text())


def test_answers_are_read_as_they_were() -> None:
    """Every wrapping of a program."""
    texts = [text for text in vars(completions).values() if isinstance(text, str)]
    assert [STEP.extract(text) for text in texts] == [extract_program(text) for text in texts]
