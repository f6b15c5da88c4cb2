"""The agent (paper, Section 4.1): a proposer writes a program, a guardian enforces the affine rule.

Beyond the paper, a refiner may repair a program that fails verification.

- An LM never sees a task's own `impl`, even if the given task has one.
- The predictors are those of `proposer`, `guardian.predict` in the modes that ask an LM, and `refiner.predict`.
- Requests are written and answers read by `YAMLAdapter`, regardless of DSPy's configuration.
- An answer that is not a program is still an answer: its text is passed on, for the verifier to reject.
- Samples are independent: they never share an LM's answer, except at temperature 0, where equal requests do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from optimizers import Budget
from optimizers.attempt import TaskExample
from optimizers.demonstrations import DemoFitter, ShownDemos, set_demos
from optimizers.predictors import replace_lms
from optimizers.strategies.base import DemoSet
from optimizers.strategies.coverage import DemoPool
from pipeline.agent.domain import examples, language_domain
from pipeline.agent.proposer import DEMONSTRATED, Proposer
from pipeline.agent.refiner import ProgramVerifier, Refiner
from pipeline.agent.speaking import holds_program_in, signature_in
from pipeline.base.choices import GuardianMode, PromptKind, ProposerKind
from pipeline.base.errors import UsageError
from pipeline.base.paths import DATA
from pipeline.languages import registry
from pipeline.languages.language import Task
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
    load_prompt,
    read_yaml,
)


class Guardian(dspy.Module):
    """Rewrites a program so that each stream is consumed at most once (paper, Section 4.1).

    Args:
        mode: `paper`, an LM sees every program; `gated`, only one in which the exact check finds a violation;
            `compiler`, such a program is repaired by the pass that inserts Copy, without an LM; `none`, no program is
            changed.
    """

    def __init__(self, mode: GuardianMode, instructions: str, *, ir: bool = True, language: str | None = None) -> None:
        super().__init__()
        self.language = language
        self.mode = mode
        if mode in ("gated", "paper"):
            signature = signature_in(language, Guard, ir)
            self.predict = dspy.Predict(signature.with_instructions(instructions))

    def forward(self, task: Task, impl: str) -> dspy.Prediction:
        """A prediction with `impl`: the corrected program, or the same one."""
        if self.mode == "none":
            return dspy.Prediction(impl=impl)
        if self.mode == "paper":
            return dspy.Prediction(impl=self._ask(task, impl))
        repaired = registry.find(self.language).repaired(task, impl)
        if repaired is None:
            return dspy.Prediction(impl=impl)
        corrected = self._ask(task, impl) if self.mode == "gated" else repaired
        return dspy.Prediction(impl=corrected)

    def _ask(self, task: Task, impl: str) -> str:
        """The LM's program, or the given one if the answer has none, such as "no change needed"."""
        try:
            answer: str = self.predict(task=task, input_impl=impl, config=self._config()).output_impl
        except AdapterParseError:
            return impl
        return answer if holds_program_in(self.language, answer) else impl

    def _config(self) -> dict[str, Any]:
        """At temperature 0 one seed for all samples, so that DSPy's response cache answers equal requests once."""
        lm = self.predict.lm or dspy.settings.lm
        return {"seed": 0} if lm is not None and lm.kwargs.get("temperature") == 0 else {}


PROMPTS = DATA / "prompts"


class Agent(dspy.Module):
    """Proposer and guardian, and a refiner if programs may be repaired.

    Args:
        guardian: The guardian's mode, see `Guardian`.
        proposer: How programs are proposed, see `Proposer`.
        refine: How often an answer that fails verification may be repaired, see `Refiner`.
        ir: Whether prompts use the structural IR; False for plain Python (paper, Section 6.2, "-WS").
        prompt: Which base prompts: `full`, or `short` for LMs with a small context window.
        prompts: Instructions by role: `proposer`, `guardian`, `refiner`. The others are those in `data/prompts/`, and
            the refiner's begin with the proposer's.
        language: Of the programs; None for the default.

    Attributes:
        verifier: What verifies for the refiner and the tools: at first, this process.
        pool: The solved tasks of which each task is shown those that suit it; None: all are shown the predictors'
            demonstrations.

    Raises:
        UsageError: A base prompt's file can't be used.
    """

    def __init__(
        self,
        guardian: GuardianMode = "gated",
        *,
        proposer: ProposerKind = "predict",
        refine: int = 0,
        ir: bool = True,
        prompt: PromptKind = "full",
        prompts: Mapping[str, str] = MappingProxyType({}),
        language: str | None = None,
    ) -> None:
        super().__init__()
        self.language = language
        self.ir = ir
        self.refine = refine
        self.prompt = prompt
        self.verifier = ProgramVerifier()
        self.pool: DemoPool | None = None

        spoken = registry.find(language)

        def instructions(role: str) -> str:
            return prompts[role] if role in prompts else spoken.instructions(role, ir=ir, kind=prompt)

        self.proposer = Proposer(instructions("proposer"), proposer, self.verifier, ir=ir, language=language)
        asked = guardian in ("gated", "paper")
        self.guardian = Guardian(guardian, instructions("guardian") if asked else "", ir=ir, language=language)
        if refine:
            repair = instructions("refiner")
            if "refiner" not in prompts:  # it begins like the proposer's, so that providers' prompt caches serve both
                repair = f"{instructions('proposer')}\n\n{repair}"
            self.refiner = Refiner(repair, self.verifier, ir=ir, language=language)

    def forward(self, task: Task) -> dspy.Prediction:
        """A prediction with `impl`, the program, and `proposal`, the program before the guardian.

        With a proposer that reasons, also `reasoning`; with repairs, `repairs`: each failed program as `impl`, with its
        `stage` and the `feedback` that the refiner was given.

        Raises:
            TypeError: `task` is not a `Task`.
        """
        language = registry.find(self.language)
        if not isinstance(task, Task):
            raise TypeError(f"task: expected a Task, such as step_runtime.load_task gives, found {task!r:.80}")
        if self.pool is not None:
            return self.shown([task]).own_programs[task.name](task=task)
        task = task.without_impl()
        with dspy.context(adapter=YAMLAdapter(extract=language.extract)):
            proposed = dict(self.proposer(task=task).items())
            proposal = proposed.pop("impl")
            impl = self.guardian(task=task, impl=proposal).impl
            if not self.refine:
                return dspy.Prediction(impl=impl, proposal=proposal, **proposed)
            impl, repairs = self._refined(task, impl)
        return dspy.Prediction(impl=impl, proposal=proposal, repairs=repairs, **proposed)

    def shown(self, tasks: Sequence[Task], budget: Budget | None = None, room: int | None = None) -> ShownDemos:
        """What the pool has for each task, within limits: a copy of the agent that shows it, and why it was chosen.

        No task is shown a solution of its own name.

        Raises:
            ValueError: There is no pool.
        """
        if self.pool is None:
            raise ValueError("the agent has no pool of solved tasks to choose from")
        plain, names = self.bare(), demonstrated_predictors(self)
        queries = [TaskExample(index, each.task.name, each) for index, each in enumerate(examples(tasks))]
        with dspy.context(adapter=YAMLAdapter()):
            fitter = DemoFitter(names, budget or Budget())
            chooser = self.pool.chooser(language_domain(self.language), partial(fitter.tokens, plain))
            demo_set = DemoSet(self.pool.name, select=chooser.for_task)
            return fitter.show(plain, demo_set, queries, room)

    def bare(self) -> Agent:
        """A copy that shows nothing, and has nothing to choose from."""
        twin: Agent = replace_lms(self, lambda lm: lm)
        twin.pool = None
        set_demos(twin, demonstrated_predictors(self), ())
        return twin

    def _refined(self, task: Task, impl: str) -> tuple[str, list[dict[str, str]]]:
        """The last program of a chain of repairs, and those before it; it ends when a repair changes nothing."""
        repairs: list[dict[str, str]] = []
        key = registry.find(self.language).key
        seen = {key(task, impl)}
        while len(repairs) < self.refine and (failure := self.refiner.failure(task, impl)):
            repairs.append({"impl": impl, **failure})
            repaired = self.refiner(task=task, impl=impl, feedback=failure["feedback"]).impl
            impl = self.guardian(task=task, impl=repaired).impl
            if key(task, impl) in seen:
                break
            seen.add(key(task, impl))
        return impl, repairs


def demonstrated_predictors(agent: Agent) -> tuple[str, ...]:
    """The names of the predictors that get demonstrations."""
    return (f"proposer.{DEMONSTRATED[agent.proposer.kind]}",)


_MODELS: Mapping[str, type[BasePrompt]] = {
    "proposer": ProposerPrompt, "guardian": GuardianPrompt, "refiner": RefinerPrompt,
}  # fmt: skip


def composed(role: str, ir: bool, kind: PromptKind) -> str:
    """The instructions of a role that writes STeP.

    Raises:
        UsageError: The file of its base prompt can't be used.
    """
    folder = PROMPTS / "short" if kind == "short" else PROMPTS
    try:
        return _instructions(_MODELS[role], folder / f"{role}.yaml", ir)
    except PromptError as error:
        raise UsageError(str(error)) from None


@lru_cache(maxsize=16)
def _instructions(model: type[BasePrompt], path: Path, ir: bool) -> str:
    """Those of a file, which a process composes once: that takes longer than all else that makes an agent."""
    prompt = load_prompt(model, path)
    return compose(prompt) if ir else compose_bare(prompt, read_yaml(BareWords, PROMPTS / "bare.yaml"))
