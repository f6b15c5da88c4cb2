"""The agent (paper, Section 4.1): a proposer writes a program, a guardian enforces the affine rule.

Beyond the paper, a refiner may repair a program that fails verification.

- An LM never sees a task's own `impl`, even if the given task has one.
- The predictors are those of `proposer`, `guardian.predict` in the modes that ask an LM, and `refiner.predict`.
- Requests are written and answers read by `YAMLAdapter`, regardless of DSPy's configuration.
- An answer that is not a program is still an answer: its text is passed on, for the verifier to reject.
- Samples are independent: they never share an LM's answer, except at temperature 0, where equal requests do.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dspy
import yaml
from dspy.utils.exceptions import AdapterParseError
from pydantic import ValidationError

from optimizers import Attempt, Budget, Entry
from optimizers.attempt import TaskExample
from optimizers.demonstrations import DemoFitter, ShownDemos, set_demos
from optimizers.predictors import replace_lms
from optimizers.strategies import DemoPool, DemoSet
from pipeline.agent.domain import examples, language_domain
from pipeline.base.errors import UsageError
from pipeline.base.files import DATA
from pipeline.base.languages import DEFAULT, step_only
from pipeline.base.settings import GuardianMode, PromptKind, ProposerKind
from pipeline.languages import registry
from pipeline.languages.language import Language
from pipeline.languages.language import Task as AnyTask
from pipeline.verification.metric import Metric, Reward
from signatures import LineAdapter, prompts, without_ir
from signatures.adapter import (
    MAX_CHARACTERS,
    Guard,
    Propose,
    Refine,
    YAMLAdapter,
    extract_program,
    holds_program,
    render_task,
)
from signatures.lines import Lessons
from step_runtime.base.errors import TaskError
from step_runtime.language.canonical import shown_program
from step_runtime.language.parser import read
from step_runtime.program.limits import Limits
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.check import check_program
from step_runtime.verification.explain import explain


def signature_in(language: str | None, signature: type[dspy.Signature], ir: bool) -> type[dspy.Signature]:
    """The signature with its task as the language shows it."""
    if language in (None, DEFAULT):
        return signature if ir else without_ir(signature)
    plain: type[dspy.Signature] = signature.with_updated_fields("task", type_=object, desc="the task")
    return plain


def holds_program_in(language: str | None, text: str) -> bool:
    """Whether an answer has a program: a statement of STeP; in another language any text."""
    return holds_program(text) if language in (None, DEFAULT) else bool(text.strip())


# --- what a run teaches the typed proposer beside its demonstrations: from all of its experience, without a token -----


class LineLessons(Lessons):
    """Lessons of one run; they change only between iterations, so that a sample depends on no other in flight."""

    def __init__(self, language: Language) -> None:
        self._language, self._read = language, 0
        self._solved: tuple[tuple[Any, str], ...] = ()
        self._refused = defaultdict[str, set[str]](set)
        super().__init__(self._bits, self._was_refused)

    def __deepcopy__(self, memo: dict[int, Any]) -> LineLessons:
        return self  # copies of an agent learn together

    def learn(self, solved: Mapping[str, Entry], attempts: Sequence[Attempt]) -> None:
        """See `optimizers.Domain`: the share of repeats is that of solved tasks, one with and one without added."""
        self._solved = tuple((each.inputs["task"], str(each.outputs["impl"])) for each in solved.values())
        repeating = sum(self._language.repeats(*each) > 0 for each in self._solved)
        self.again = (repeating + 1) / (len(self._solved) + 2)
        for attempt in (attempts[place] for place in range(self._read, len(attempts))):
            if attempt.scored and not attempt.passed and "impl" in attempt.outputs:
                self._refused[attempt.task_key].add(self._language.key(None, str(attempt.outputs["impl"])))
        self._read = len(attempts)

    def _bits(self, task: Any, text: str, lines: Sequence[str]) -> Sequence[float]:
        return self._language.line_bits(task, text, lines, self._solved)

    def _was_refused(self, task: Any, text: str) -> bool:
        refused = self._refused.get(task.name, ())
        return bool(refused) and self._language.key(None, self._language.repaired(task, text) or text) in refused


# --- repairs: an LM reads its wrong program with the verifier's diagnostics, and rewrites it --------------------------
# The reference's values never reach the LM: of a wrong value it learns which output, where, and how many places differ.

MetricFn = Callable[[Any, Any], Reward]
"""Judges a prediction on an example, such as `pipeline.verification.metric.Metric`."""


class ProgramVerifier:
    """Verifies programs while the agent runs; copies of an agent share it.

    Attributes:
        metric: What verifies; None for verification in this process, without a memory limit.
        tasks: The tasks that the user named: of the tasks in a prompt, only their code may run.
    """

    def __init__(self, metric: MetricFn | None = None) -> None:
        self.metric = metric
        self.tasks: list[Any] = []

    def __call__(self, task: Any, impl: str) -> Reward:
        """The verdict on a program.

        Raises:
            TaskError: The task can't be used, or its reference fails.
        """
        if self.metric is None:
            self.metric = Metric()
        return self.metric(dspy.Example(task=task), dspy.Prediction(impl=impl))

    def __deepcopy__(self, memo: dict[int, Any]) -> ProgramVerifier:
        return self


_VALUES = re.compile(r"(; first at \[[^\]]*\]): .*")


class Refiner(dspy.Module):
    """Repairs a program that fails verification."""

    def __init__(
        self, instructions: str, verifier: ProgramVerifier, *, ir: bool = True, language: str | None = None
    ) -> None:
        super().__init__()
        self.language = language
        signature = signature_in(language, Refine, ir)
        self.predict = dspy.Predict(signature.with_instructions(instructions))
        self.verifier = verifier

    def failure(self, task: Any, impl: str) -> dict[str, str] | None:
        """`stage` and `feedback` of a program that fails; None for one that passes.

        None, too, if the task itself is faulty: verifying the final answer raises the same error.
        """
        try:
            verdict = self.verifier(task, impl)
        except TaskError:
            return None
        if verdict:
            return None
        return {"stage": str(verdict.stage), "feedback": without_reference_values(verdict.stage, verdict.feedback)}

    def forward(self, task: Any, impl: str, feedback: str) -> dspy.Prediction:
        """A prediction with `impl`: the LM's program, or the given one if the answer has none."""
        try:
            answer = self.predict(task=task, input_impl=impl, diagnostics=feedback).output_impl
        except AdapterParseError as error:
            answer = error.lm_response
        return dspy.Prediction(impl=answer if holds_program_in(self.language, answer) else impl)


def without_reference_values(stage: str | None, feedback: str) -> str:
    """A verdict's feedback without values of the reference."""
    return _VALUES.sub(r"\1", feedback) if stage == "value" else feedback


# --- the proposer: a program for a task, directly, after reasoning, with tools, or line by line -----------------------
# The tools cannot reach the task's own reference: its program is checked without being run. Only examples that are in
# the prompt with their solutions are verified, and of these only the package's own and the user's tasks: a
# demonstration in a compiled program from elsewhere is text, and its code never runs.


@dataclass(frozen=True)
class ToolContext:
    """The data that the tools use.

    Attributes:
        examples: Solved examples by name, which are shown.
        runnable: Names of the examples whose code may run: those that come with this package, and the user's own
            tasks. A program from elsewhere contributes text only.
    """

    task: Task
    examples: Mapping[str, SolvedTask]
    verifier: ProgramVerifier
    runnable: frozenset[str] = frozenset()


_ITEMSIZE = 8
"""Bytes of a number when a program is verified."""

_CONTEXT: ContextVar[ToolContext] = ContextVar("tool_context")


@contextmanager
def tool_context(context: ToolContext) -> Iterator[None]:
    """Makes the tools use a context in this thread."""
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)


def check(program: str) -> str:
    """Check a program for the task: the dtype and dims of every stream, and what breaks a rule. Computes nothing."""
    context = _CONTEXT.get()
    text = extract_program(program)
    scope = static_scope(context.task)
    found = check_program(read(text), scope, Limits(), _ITEMSIZE).found
    rules = "\n".join(diagnostic.render(text) for diagnostic in found)
    verdict = rules or "No rule is broken; whether it computes the outputs is open."
    return f"{explain(text, scope).table()}\n\n{verdict}"


def list_examples() -> str:
    """List the names of the solved examples."""
    return ", ".join(_CONTEXT.get().examples) or "There is none."


def show_example(name: str) -> str:
    """Show a solved example: its task and its program."""
    example = _CONTEXT.get().examples.get(name)
    if example is None:
        return _unknown(name)
    return f"{render_task(example.task)}\n\n{shown_program(example.program, example.task.statement).strip()}"


def verify_on_example(name: str, program: str) -> str:
    """Run a program on a solved example's task, and say whether it computes that example's outputs."""
    context, example = _CONTEXT.get(), _CONTEXT.get().examples.get(name)
    if example is None:
        return _unknown(name)
    text = extract_program(program)
    if name not in context.runnable:
        return "This example can't be run: its task is not among this run's tasks."
    try:
        verdict = context.verifier(example.task.named(name), text)
    except TaskError as error:
        return f"This example can't be run: {error}"
    return "It passes." if verdict else without_reference_values(verdict.stage, verdict.feedback)


def _unknown(name: str) -> str:
    return f"No example is called {name!r}; the examples are: {list_examples()}"


TOOLS: tuple[Callable[..., str], ...] = (check, list_examples, show_example, verify_on_example)


TURNS = 8
"""Tool calls before the program must be written."""

DEMONSTRATED = {
    "predict": "predict", "cot": "predict.predict", "react": "predict.extract.predict", "typed": "predict",
}  # fmt: skip
"""The name, within the proposer of a kind, of the predictor that gets demonstrations."""


class Proposer(dspy.Module):
    """Writes a candidate program for a task.

    Args:
        kind: `predict`, directly; `cot`, with reasoning first; `react`, in turns with tools (`TOOLS` below);
            `typed`, line by line, each chosen among those that the language lists.

    Attributes:
        lessons: What a run teaches the typed proposer; None: nothing.
    """

    def __init__(
        self,
        instructions: str,
        kind: ProposerKind = "predict",
        verifier: ProgramVerifier | None = None,
        *,
        ir: bool = True,
        language: str | None = None,
    ) -> None:
        super().__init__()
        self.language = language
        self.kind = kind
        self.lessons: LineLessons | None = None
        self.verifier = verifier or ProgramVerifier()
        signature = signature_in(language, Propose, ir).with_instructions(instructions)
        if kind in ("predict", "typed"):
            self.predict = dspy.Predict(signature)
        elif kind == "cot":
            self.predict = dspy.ChainOfThought(signature)
        else:
            step_only(language, "--proposer react")
            self.predict = dspy.ReAct(signature, list(TOOLS), max_iters=TURNS)

    def forward(self, task: Task) -> dspy.Prediction:
        """A prediction with `impl`; with `cot` and `react` also `reasoning`, with `react` its `turns`."""
        try:
            if self.kind == "react":
                examples = dict(self._examples(task))
                runnable = frozenset(name for name, example in examples.items() if self._may_run(example))
                with tool_context(ToolContext(task, examples, self.verifier, runnable)):
                    answer = dict(self.predict(task=task).items())
                # Renamed, as demonstrations would otherwise show all of it.
                answer["turns"] = answer.pop("trajectory")
            elif self.kind == "typed":
                answer = self._by_lines(task)
            else:
                answer = dict(self.predict(task=task).items())
            return dspy.Prediction(**answer)
        except AdapterParseError as error:
            # The answer is empty, or not what a turn asks for; it may still hold a program.
            return dspy.Prediction(impl=registry.find(self.language).extract(error.lm_response[-MAX_CHARACTERS:]))

    def _by_lines(self, task: Task) -> dict[str, Any]:
        """An answer made of lines that may follow each other, with what the language's own pass adds to them."""
        language = registry.find(self.language)
        with dspy.context(adapter=LineAdapter(language.next_lines, language.as_lines, self.lessons)):
            answer = dict(self.predict(task=task).items())
        repaired = language.repaired(task, answer["impl"])
        return answer if repaired is None else answer | {"impl": repaired}

    def _may_run(self, example: SolvedTask) -> bool:
        """Whether an example's code is the package's own or the user's."""
        return (
            any(example.task == shipped.task for _, shipped in shipped_examples())
            or example.task in self.verifier.tasks
        )

    def _examples(self, task: Task) -> Iterator[tuple[str, SolvedTask]]:
        """The solved tasks in the prompt by name, demonstrations first, without the task itself."""
        predictor = self.predict.extract.predict
        for number, demo in enumerate(predictor.demos, 1):
            shown = Task.model_validate(demo["task"]) if isinstance(demo["task"], dict) else demo["task"]
            if shown.without_impl() != task:
                yield f"demonstration {number}", SolvedTask(shown.without_impl(), demo["impl"])
        for name, example in _reference_examples(predictor.signature.instructions):
            if example.task != task:
                yield name, example


@cache
def packaged_prompt() -> prompts.ProposerPrompt:
    """The proposer's base prompt that comes with this package."""
    return prompts.load_prompt(prompts.ProposerPrompt, DATA / "prompts" / "proposer.yaml")


@cache
def shipped_examples() -> tuple[tuple[str, SolvedTask], ...]:
    """The examples in `packaged_prompt`, each with its name."""
    return _reference_examples(prompts.compose(packaged_prompt()))


@lru_cache(maxsize=8)
def _reference_examples(instructions: str) -> tuple[tuple[str, SolvedTask], ...]:
    """The solved examples in a base prompt that `signatures.compose` wrote; none for other instructions."""
    try:
        prompt = prompts.ProposerPrompt.model_validate(yaml.safe_load(f"{instructions}\n"))
    except (ValidationError, yaml.YAMLError):
        return ()
    return tuple(
        (f"{reference.name} {number}", example)
        for reference in (*prompt.primitives, *prompt.patterns)
        for number, example in enumerate(reference.solved, start=1)
    )


# --- the agent (paper, Section 4.1): a proposer writes a program, a guardian enforces the affine rule -----------------


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

    def forward(self, task: AnyTask, impl: str) -> dspy.Prediction:
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

    def _ask(self, task: AnyTask, impl: str) -> str:
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
        prompt: Which base prompts: `full`, `short` for LMs with a small context window, or `bare`, of names and types.
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

    def forward(self, task: AnyTask) -> dspy.Prediction:
        """A prediction with `impl`, the program, and `proposal`, the program before the guardian.

        With a proposer that reasons, also `reasoning`; with repairs, `repairs`: each failed program as `impl`, with its
        `stage` and the `feedback` that the refiner was given.

        Raises:
            TypeError: `task` is not a `Task`.
        """
        language = registry.find(self.language)
        if not isinstance(task, AnyTask):
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

    def shown(self, tasks: Sequence[AnyTask], budget: Budget | None = None, room: int | None = None) -> ShownDemos:
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

    def _refined(self, task: AnyTask, impl: str) -> tuple[str, list[dict[str, str]]]:
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


_MODELS: Mapping[str, type[prompts.BasePrompt]] = {
    "proposer": prompts.ProposerPrompt, "guardian": prompts.GuardianPrompt, "refiner": prompts.RefinerPrompt,
}  # fmt: skip


def composed(role: str, ir: bool, kind: PromptKind) -> str:
    """The instructions of a role that writes STeP.

    Raises:
        UsageError: The file of its base prompt can't be used.
    """
    folder = PROMPTS if kind == "full" else PROMPTS / kind
    try:
        return _instructions(_MODELS[role], folder / f"{role}.yaml", ir)
    except prompts.PromptError as error:
        raise UsageError(str(error)) from None


@lru_cache(maxsize=16)
def _instructions(model: type[prompts.BasePrompt], path: Path, ir: bool) -> str:
    """Those of a file, which a process composes once: that takes longer than all else that makes an agent."""
    prompt = prompts.load_prompt(model, path)
    return (
        prompts.compose(prompt)
        if ir
        else prompts.compose_bare(prompt, prompts.read_yaml(prompts.BareWords, PROMPTS / "scripts.yaml"))
    )
