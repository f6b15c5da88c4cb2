"""The settings of a run, declared once: type, default, help text and behaviour on resume.

The command line (`pipeline.cli.options`), the artifact `request.json`, MLflow's params and `--resume` derive from the
fields below.

    Config    (pipeline.base.settings)
    ├── LMConfig, AgentConfig, SamplingConfig, BudgetConfig, LearningConfig    groups of settings
    ├── RunConfig         all of them: what `pipeline.compile` runs
    ├── ProgramConfig     all but learning, for a fixed program: evaluate, generate
    └── PlanOptions       what the runs of an ablation share: its tasks, its LMs, and how they are asked
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import model_validator

from pipeline.base.errors import UsageError
from pipeline.base.files import existing_file
from pipeline.base.languages import LanguageName, step_only
from pipeline.base.settings import (
    EMBEDDED,
    GUARDIANS,
    NO_PROGRAM,
    PROMPTS,
    PROPOSERS,
    REFLECTING,
    RESAMPLE,
    SEARCH,
    SELECTIONS,
    VALIDATING,
    Config,
    Count,
    GuardianMode,
    Natural,
    Objective,
    OptimizerName,
    Option,
    OptionGroup,
    Positive,
    Price,
    PromptKind,
    ProposerKind,
    Repairs,
    SelectionName,
    Several,
    Temperatures,
    is_embedded,
    option,
)

LM = OptionGroup("the LM")
AGENT = OptionGroup("the agent")
TUNING = OptionGroup("settings of single optimizers")
SAMPLING = OptionGroup("sampling")
BUDGET = OptionGroup("budget (unlimited by default; a run that reaches a limit ends with the results so far)")
EARLIER_RUNS = OptionGroup("earlier runs (RUN is an id, or the beginning of an id or of a run's name)")

ADAPTIVE = ("adaptive",)
LOCAL = "local:"
NO_CLUSTER = "none"
"""What a resumed run is given that is to leave its cluster."""

_MOST_NODES = 1000
"""Nodes of this machine: each is a process."""

_LOCAL = re.compile(rf"{LOCAL}([0-9]{{1,9}})")
_REGISTERED = re.compile(r"[\w.-]+(@[\w-]+)?", re.ASCII)
_REMOTE = re.compile(r"(tcp|tls)://(\[[0-9a-fA-F:.]+\]|[\w.-]+):([0-9]{1,5})", re.ASCII)


def cluster_address(text: str) -> str:
    """Checks an address on the command line, and returns it.

    Raises:
        ValueError: It is neither `local:N`, nor the address of a scheduler, nor `none`.
    """
    remote = _REMOTE.fullmatch(text)
    if text == NO_CLUSTER or 0 < local_nodes(text) <= _MOST_NODES or (remote and 0 < int(remote.group(3)) < 2**16):
        return text
    nodes = f"local:N with N from 1 to {_MOST_NODES:,}"
    raise ValueError(f"expected tcp://HOST:PORT, tls://HOST:PORT or {nodes}, got {text!r:.80}")


def local_nodes(address: str) -> int:
    """How many nodes of this machine `local:N` asks for; 0 for any other address."""
    found = _LOCAL.fullmatch(address)
    return int(found.group(1)) if found else 0


def registered_name(text: str) -> str:
    """Checks the name of a model in MLflow's registry, with or without an alias, and returns it.

    Raises:
        ValueError: It is neither `NAME` nor `NAME@ALIAS`, or the alias is MLflow's own.
    """
    if _REGISTERED.fullmatch(text) and not re.search(r"@(latest|v\d+)$", text, re.IGNORECASE):
        return text
    signs = "of letters, digits, `_`, `-` and `.`, the alias neither `latest` nor a version"
    raise ValueError(f"expected NAME or NAME@ALIAS, {signs}, got {text!r:.80}")


def _program(text: str) -> str:
    return text if text == NO_PROGRAM or ":/" in text else existing_file(text)


def _no_search(text: str) -> str:
    if text == SEARCH:
        hint = "it verifies its own candidates, so pass@k does not apply: see pipeline.generate"
        raise ValueError(f"expected one of {', '.join(PROPOSERS)}, got {text!r} ({hint})")
    return text


class ServerConfig(Config):
    """Which server has the LM, and what its answers may cost."""

    api_base: str | None = LM.option(None, "the address of an OpenAI-compatible server", "URL", resume="changed")
    max_tokens: Count = LM.option(
        4096, "maximum length of an answer, reasoning included; truncated answers are reported", "N"
    )
    price: Price | None = LM.option(
        None,
        "dollars per million input and output tokens, and of input that the provider's cache reads and writes (default:"
        " as the model's data says; of the cache: IN)",
        "IN,OUT[,READ,WRITE]",
        resume="changed",
    )


class LMConfig(ServerConfig):
    """Settings of the LM and its requests."""

    context: Count | None = LM.option(
        None,
        "tokens of one request, prompt and answer; demonstrations that do not fit are left out, easiest first"
        " (default: from the model's data, its server, or its first refusal)",
        "N",
    )


class AgentConfig(Config):
    """How the agent is built."""

    language: LanguageName = None

    guardian: GuardianMode = AGENT.option(
        GUARDIANS[0],
        "how programs that consume a stream twice are repaired: `gated`, by the LM, only if the exact check finds a"
        " violation; `paper`, by the LM, for every proposal; `compiler`, by a compiler pass; `none`",
    )
    proposer: ProposerKind = AGENT.option(
        PROPOSERS[0],
        "`predict`, the program directly; `cot`, with reasoning first; `react`, in several turns with tools that"
        " check types and shapes and verify on solved examples; `typed`, line by line, among the lines that types"
        " allow",
        check=_no_search,
    )
    refine: Repairs = AGENT.option(
        0,
        "let the LM repair a failed answer up to K times, given the diagnostics; all attempts count as one answer",
        "K",
    )
    prompt: PromptKind = AGENT.option(
        PROMPTS[0],
        "the base prompts: `full`; `short`, of 3,000 tokens at most, for a small context window; or `bare`, the"
        " primitives' names and types alone, as a language has on its first day",
    )

    @property
    def ir(self) -> bool:
        """Whether prompts use the structural IR."""
        return True

    def require_served(self, model: str) -> None:
        """Raises `UsageError` for an option that this LM, or a language other than STeP, does not serve."""
        for name, given in (
            ("--no-ir", not self.ir),
            ("--prompt", self.prompt != PROMPTS[0]),
            ("--proposer react", self.proposer == "react"),
        ):
            if given:
                step_only(self.language, name)
        if is_embedded(model) and self.language is not None:
            hint = f"name another, such as openai/gpt-4o or scripted/{self.language}"
            raise UsageError(f"--lm: the embedded LM does not write the language `{self.language}`; {hint}")
        lacks = {"typed": "chooses no lines", "react": "does not call tools"}.get(self.proposer)
        if lacks and is_embedded(model):
            hint = "name another with --lm, or use `predict`"
            raise UsageError(f"--proposer {self.proposer}: the embedded LM {lacks}; {hint}")
        if not self.ir and is_embedded(model):
            raise UsageError("--no-ir: the embedded LM reads the structural IR alone; name another with --lm")


class ClusterConfig(Config):
    """On which machines the work is done."""

    cluster: str | None = SAMPLING.option(
        None,
        "verify, search and run the embedded LM on the nodes of a Dask cluster, `tcp://HOST:8786`, or `local:N` for"
        " N nodes of this machine; the results don't depend on it (default, and `none`: this machine's cores)",
        "ADDRESS",
        resume="changed",
        check=cluster_address,
    )


class SamplingConfig(ClusterConfig):
    """How answers are sampled and verified."""

    samples: Count = SAMPLING.option(64, "maximum answers per task and temperature in one pass over the tasks", "N")
    temperatures: Temperatures = SAMPLING.option((0.4, 0.7, 1.0), "sampling temperatures, separated by commas", "T,T")
    threads: Count | None = SAMPLING.option(
        None,
        "maximum number of concurrent requests; results do not depend on it (default: 16; embedded: two per core,"
        " four per cluster worker)",
        "N",
        resume="changed",
    )
    seed: Natural = SAMPLING.option(0, "random seed; equal seeds give equal answers", "N")


class BudgetConfig(Config):
    """When to stop before all tasks are solved."""

    max_tokens_total: Count | None = BUDGET.option(None, "prompt and completion tokens together", "N", resume="changed")
    max_usd: Positive | None = BUDGET.option(None, "requires a known price, or --price", "X", resume="changed")
    max_minutes: Positive | None = BUDGET.option(None, "also ends requests in flight", "X", resume="changed")


class LearningConfig(Config):
    """How the agent learns over iterations."""

    granularity: Count = SAMPLING.option(3, "number of difficulty levels for solved tasks", "M")
    selection: SelectionName = SAMPLING.option(
        SELECTIONS[0],
        "the solved tasks that `adaptive` shows next. For all tasks alike: `adaptive`, the paper's levels of"
        " difficulty, the hardest first; `everything`; `random`. For each task its own: `coverage`, tasks that together"
        " have its structures; `relevance`, the two most relevant (default of --proposer typed). `savings` (default"
        " with --objective): all, each beside its dearest right answer, most saved first. The control: `resample` shows"
        " no task, and samples unsolved tasks again until a limit",
    )
    max_demos: Natural | None = SAMPLING.option(None, "maximum demonstrations in a prompt; the hardest are kept", "N")
    demo_tokens: Count | None = SAMPLING.option(
        None, "maximum size of the demonstrations in a prompt, in estimated tokens (default: unlimited)", "N"
    )
    objective: Objective = SAMPLING.option(
        "correctness",
        "which right answer to prefer: `correctness`, the shortest; or the cheapest by a cost figure (docs/cost.md),"
        " which keeps sampling solved tasks until the budget ends or no task gets cheaper",
    )
    max_iterations: Count | None = BUDGET.option(
        None, "maximum number of passes over the unsolved tasks", "N", resume="changed"
    )


Tasks = Annotated[
    tuple[str, ...] | None,
    Option(
        "task files, folders, patterns, or benchmark names such as gemm/1 and 'bmm/*' (default: the benchmark)",
        metavar="PATH|GLOB",
        nargs="+",
        resume="input",
    ),
]


class RunConfig(LMConfig, AgentConfig, SamplingConfig, LearningConfig, BudgetConfig):
    """All settings of a run of `pipeline.compile`."""

    optimizer: OptimizerName = option(
        ...,
        "`adaptive`: adaptive self-improvement learning; `none`: no demonstrations; or one of DSPy's own, whose program"
        " is then sampled: `bootstrap`, `random-search`, `mipro`, `simba`, `gepa`. All but `adaptive` make one pass, or"
        " as many over the unsolved tasks as --max-iterations or --match-tokens allows",
    )
    tasks: Tasks = None
    lm: str = LM.option(
        EMBEDDED, "a DSPy/LiteLLM model string such as openai/gpt-4o, or `embedded`: offline, no key", "MODEL"
    )
    timeout: Positive = LM.option(
        600.0, "seconds before a request without a whole reply is retried", "SECONDS", resume="changed"
    )
    batch_n: Count = LM.option(
        1,
        "completions per request, where the provider supports `n`: the prompt is then paid for once",
        "N",
        resume="changed",
    )
    reflection_lm: str | None = TUNING.option(
        None, "the LM that writes instructions for `mipro`, `simba` and `gepa` (default: that of --lm)", "MODEL"
    )
    validation: tuple[str, ...] | None = TUNING.option(
        None,
        "the tasks on which `random-search`, `mipro` and `gepa` choose among programs (default: those of --tasks),"
        " and `adaptive` the level of its demonstrations (default: the hardest)",
        "PATH|GLOB",
        nargs="+",
        resume="input",
    )
    match_tokens: str | None = BUDGET.option(
        None,
        "stop after as many tokens as a finished run used, as a control at equal cost; with `--selection resample`, or"
        " an optimizer other than `adaptive`, the run continues until then",
        "RUN",
    )
    experience: str | None = EARLIER_RUNS.option(
        None,
        "start with the solutions of a run (its experience.json); only tasks that it did not solve are sampled",
        "RUN|FILE",
        resume="input",
    )
    teacher: Literal["search"] | None = EARLIER_RUNS.option(
        None,
        "solve tasks first with `search`, without an LM, and demonstrate those programs. The LM is sampled for the"
        " remaining tasks only; tasks that the teacher solves never count as solved",
    )
    teacher_minutes: Positive = EARLIER_RUNS.option(1.0, "time limit of --teacher for one task", "X")

    no_ir: bool = AGENT.option(False, "prompts in plain Python, without the structural IR (an ablation in the paper)")
    stop_after: Several | None = SAMPLING.option(
        None, "sample a task no further in a pass once it has K right answers at a temperature (default: never)", "K"
    )
    split: bool = SAMPLING.option(
        False,
        "sample sub-tasks of unsolved tasks too, and solve a task by composing their programs (`adaptive` only)",
    )

    register_as: str | None = option(
        None,
        "also register the compiled program in MLflow's registry, as a new version. The alias moves"
        " to it; `models:/NAME@ALIAS` then serves in place of a file",
        "NAME[@ALIAS]",
        check=registered_name,
        resume="changed",
    )

    @model_validator(mode="before")
    @classmethod
    def _usual_selection(cls, given: Any) -> Any:
        """An LM that chooses lines is shown the most relevant tasks, or with an objective what saves most."""
        usual = "relevance" if given.get("proposer") == "typed" else None
        usual = usual if given.get("objective", "correctness") == "correctness" else "savings"
        return {"selection": usual, **given} if usual and given.get("optimizer") == "adaptive" else given

    @property
    def ir(self) -> bool:
        """Whether prompts use the structural IR."""
        return not self.no_ir

    def require_used(self) -> None:
        """Raises `UsageError` for an option that the optimizer, the LM or the language has no use for, or lacks."""
        self.require_served(self.lm)
        for name, chosen in (
            ("--objective", self.objective != "correctness"),
            ("--split", self.split),
            ("--teacher search", self.teacher is not None),
        ):
            if chosen:
                step_only(self.language, name)
        limits = (self.max_iterations, self.match_tokens, self.max_tokens_total, self.max_usd, self.max_minutes)
        if self.selection == RESAMPLE and not any(limits):
            raise UsageError(
                "--selection resample: expected a limit at which it ends: --max-iterations, --match-tokens,"
                " --max-tokens-total, --max-usd or --max-minutes"
            )
        if self.selection == "savings" and self.objective == "correctness":
            raise UsageError("--selection savings: expected --objective, which says what is saved")
        for name, given, takers, use in (
            ("--validation", self.validation, VALIDATING, "use validation tasks"),
            ("--selection", self.selection != SELECTIONS[0], ADAPTIVE, "select demonstrations"),
            ("--split", self.split, ADAPTIVE, "learn from sub-tasks"),
            ("--experience", self.experience, ADAPTIVE, "learn from it"),
            ("--teacher", self.teacher, ADAPTIVE, "learn from it"),
            ("--reflection-lm", self.reflection_lm, REFLECTING, "reflect"),
        ):
            if given and self.optimizer not in takers:
                raise UsageError(f"{name}: `{self.optimizer}` does not {use}; omit the option")
        if self.optimizer in REFLECTING and is_embedded(self.reflection_lm or self.lm):
            reason = "needs an LM that writes instructions, but the embedded LM writes programs only"
            raise UsageError(f"--reflection-lm: `{self.optimizer}` {reason}; name another, such as openai/gpt-4o")

    def recorded(self) -> dict[str, Any]:
        """The settings in JSON's types, without the inputs, which a run records in full."""
        inputs = {name for name in type(self).model_fields if Option.of(type(self), name).resume == "input"}
        if self.language is None:
            inputs.add("language")  # the default, which records did not name before there were others
        return self.model_dump(mode="json", exclude=inputs)


class ProgramConfig(LMConfig, AgentConfig, SamplingConfig, BudgetConfig):
    """A fixed program, demonstrations included; a compiled one determines the agent's settings."""

    program: str = option(
        ...,
        f"a compiled program, such as pipeline.compile writes; `{NO_PROGRAM}`: the uncompiled agent",
        "P",
        check=_program,
    )
    lm: str | None = LM.option(
        None,
        "a DSPy/LiteLLM model string such as openai/gpt-4o, or `embedded`: offline, no key (default: the LM"
        " of the program's compilation, otherwise embedded)",
        "MODEL",
    )


class PlanOptions(ServerConfig, SamplingConfig, BudgetConfig):
    """An ablation: its tasks, its LMs, and how they are asked; all else is as the paper has it."""

    tasks: Tasks = None
    lm: tuple[str, ...] = LM.option(
        (EMBEDDED,), "DSPy/LiteLLM model strings such as openai/gpt-4o, or `embedded`", "MODEL", nargs="+"
    )
    seed: tuple[Natural, ...] = SAMPLING.option(  # type: ignore[assignment]
        (0,), "random seeds, a run of each method for each; intervals and tests need two or more", "N", nargs="+"
    )
