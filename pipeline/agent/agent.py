"""The agent (paper, Section 4.1): a proposer writes a program, a guardian sees to the affine rule.

Beyond the paper, a refiner may mend what the verifier refuses.

- An LM never sees a task's own `impl`, whatever task the agent is given.
- The predictors stand below `proposer`, in the modes that ask an LM `guardian.predict`, and `refiner.predict`.
- Requests are written and answers read by `YAMLAdapter`, whatever DSPy is configured to.
- An answer that is no program is an answer all the same: its text is handed on, for the verifier to refuse.
- Samples are independent: no answer of an LM serves two, but at temperature 0, where equal requests have one answer.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal, get_args

import dspy
from dspy.utils.exceptions import AdapterParseError

from pipeline.agent.proposer import Proposer, ProposerKind
from pipeline.agent.refiner import Judge, Refiner
from pipeline.base.errors import UsageError
from pipeline.base.paths import DATA
from signatures import (
    BareWords,
    BasePrompt,
    Guard,
    GuardianPrompt,
    PromptError,
    ProposerPrompt,
    RefinerPrompt,
    YAMLAdapter,
    compose,
    compose_bare,
    holds_program,
    load_prompt,
    read_yaml,
    without_ir,
)
from step_runtime.language.equivalence import canonical_key
from step_runtime.language.parser import parse
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from step_runtime.tasks.scope import Scope, static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.check import check_affine, insert_copies

PROMPTS = DATA / "prompts"

GuardianMode = Literal["gated", "paper", "compiler", "none"]


class Guardian(dspy.Module):
    """Rewrites a program so that each stream is consumed at most once.

    Args:
        mode: `paper`, an LM sees every program; `gated`, only one that breaks the rule, by the exact check;
            `compiler`, such a program is mended by the pass that inserts Copy, without an LM; `none`, nothing is done.
        instructions: the base prompt, composed.
        ir: whether the task is shown in the structural IR.

    Raises:
        ValueError: there is no such mode.
    """

    def __init__(self, mode: GuardianMode, instructions: str, *, ir: bool = True) -> None:
        super().__init__()
        if mode not in get_args(GuardianMode):
            raise ValueError(f"the guardian's mode is one of {', '.join(get_args(GuardianMode))}, not {mode!r}")
        self.mode = mode
        if mode in ("gated", "paper"):
            signature = Guard if ir else without_ir(Guard)
            self.predict = dspy.Predict(signature.with_instructions(instructions))

    def forward(self, task: Task, impl: str) -> dspy.Prediction:
        """A prediction with `impl`: the program to go on with."""
        if self.mode == "none":
            return dspy.Prediction(impl=impl)
        if self.mode == "paper":
            return dspy.Prediction(impl=self._ask(task, impl))
        program = _breaking_the_rule(task, impl)
        if program is None:
            return dspy.Prediction(impl=impl)
        mended = self._ask(task, impl) if self.mode == "gated" else print_program(insert_copies(program))
        return dspy.Prediction(impl=mended)

    def _ask(self, task: Task, impl: str) -> str:
        """The LM's program; the one that it was shown if it answers without a program, as "no change needed" would."""
        try:
            answer: str = self.predict(task=task, input_impl=impl, config=self._config()).output_impl
        except AdapterParseError:
            return impl
        return answer if holds_program(answer) else impl

    def _config(self) -> dict[str, Any]:
        """At temperature 0 one seed for all samples: equal requests, which DSPy's response cache answers once."""
        lm = self.predict.lm or dspy.settings.lm
        return {"seed": 0} if lm is not None and lm.kwargs.get("temperature") == 0 else {}


class Agent(dspy.Module):
    """Proposer and guardian, and a refiner where programs may be repaired.

    Args:
        guardian: the guardian's mode, see `Guardian`.
        proposer: how programs are proposed, see `Proposer`.
        refine: how often an answer may be repaired that the verifier refuses; see `Refiner`.
        ir: whether prompts use the structural IR; False for plain Python (paper, Section 6.2, "-WS").
        judge: what verifies for the refiner and the tools; None: in this process.
        proposer_prompt: the proposer's instructions; None for those of `data/prompts/`.
        guardian_prompt: the guardian's instructions, likewise.
        refiner_prompt: the refiner's instructions, likewise; they begin with the proposer's.

    Raises:
        UsageError: a base prompt's file can't be used.
        ValueError: there is no such guardian's mode or kind of proposer, or `refine` is negative.
    """

    def __init__(
        self,
        guardian: GuardianMode = "gated",
        *,
        proposer: ProposerKind = "predict",
        refine: int = 0,
        ir: bool = True,
        judge: Judge | None = None,
        proposer_prompt: str | None = None,
        guardian_prompt: str | None = None,
        refiner_prompt: str | None = None,
    ) -> None:
        super().__init__()
        if refine < 0:
            raise ValueError(f"refine is a number of repairs, at least 0, not {refine}")
        self.ir = ir
        self.refine = refine
        self.judge = judge or Judge()
        if proposer_prompt is None:
            proposer_prompt = _composed(ProposerPrompt, "proposer", ir)
        if guardian_prompt is None:
            guardian_prompt = _composed(GuardianPrompt, "guardian", ir)
        self.proposer = Proposer(proposer_prompt, proposer, self.judge, ir=ir)
        self.guardian = Guardian(guardian, guardian_prompt, ir=ir)
        if refine:
            if refiner_prompt is None:
                # As the proposer is told it, to the letter, and first: providers then have it in their caches.
                refiner_prompt = f"{proposer_prompt}\n\n{_composed(RefinerPrompt, 'refiner', ir)}"
            self.refiner = Refiner(refiner_prompt, self.judge, ir=ir)

    def forward(self, task: Task) -> dspy.Prediction:
        """A prediction with `impl`, the program, and `proposal`, what it was before the guardian.

        With a proposer that reasons, also `reasoning`; with repairs, `repairs`: each refused program as `impl`, with
        its `stage` and the `feedback` that the refiner was given.

        Raises:
            TypeError: `task` is no task.
        """
        if not isinstance(task, Task):
            raise TypeError(f"task: expected a Task, such as step_runtime.load_task gives, found {task!r:.80}")
        task = task.without_impl()
        with dspy.context(adapter=YAMLAdapter()):
            proposed = dict(self.proposer(task=task).items())
            proposal = proposed.pop("impl")
            impl = self.guardian(task=task, impl=proposal).impl
            if not self.refine:
                return dspy.Prediction(impl=impl, proposal=proposal, **proposed)
            impl, repairs = self._refined(task, impl)
        return dspy.Prediction(impl=impl, proposal=proposal, repairs=repairs, **proposed)

    def _refined(self, task: Task, impl: str) -> tuple[str, list[dict[str, str]]]:
        """The last program of a chain of repairs, and those before it; it ends where a repair brings nothing new."""
        repairs: list[dict[str, str]] = []
        seen = {_key(task, impl)}
        while len(repairs) < self.refine and (refusal := self.refiner.refusal(task, impl)):
            repairs.append({"impl": impl, **refusal})
            mended = self.refiner(task=task, impl=impl, feedback=refusal["feedback"]).impl
            impl = self.guardian(task=task, impl=mended).impl
            if _key(task, impl) in seen:
                break
            seen.add(_key(task, impl))
        return impl, repairs


def taught(agent: Agent) -> tuple[str, ...]:
    """The names of the predictors that demonstrations go to."""
    return tuple(f"proposer.{name}" for name in agent.proposer.taught)


def _composed(model: type[BasePrompt], name: str, ir: bool) -> str:
    try:
        prompt = load_prompt(model, PROMPTS / f"{name}.yaml")
        return compose(prompt) if ir else compose_bare(prompt, read_yaml(BareWords, PROMPTS / "bare.yaml"))
    except PromptError as error:
        raise UsageError(str(error)) from None


def _key(task: Task, impl: str) -> str:
    return canonical_key(impl, [spec.name for spec in task.inputs])


@lru_cache(maxsize=1024)
def _scope(task: Task) -> Scope:
    return static_scope(task)


def _breaking_the_rule(task: Task, impl: str) -> Program | None:
    """The program if it parses and consumes a stream more than once."""
    program, findings = parse(impl, _scope(task))
    return program if not findings and check_affine(program) else None
