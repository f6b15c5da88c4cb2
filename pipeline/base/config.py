"""The settings of a run, declared once: type, default, help text and behaviour on resume.

The command line (`pipeline.cli.options`), the artifact `request.json`, MLflow's params and `--resume` derive from the
fields below.

    Config    (pipeline.base.settings)
    ├── LMConfig, AgentConfig, SamplingConfig, BudgetConfig, LearningConfig, SkillsConfig    groups of settings
    ├── RunConfig         all of them: what `pipeline.compile` runs
    ├── ProgramConfig     all but learning, for a fixed program: evaluate, generate
    └── AblationConfig    what the runs of an ablation share
"""

from __future__ import annotations

from typing import Annotated, Any

from pipeline.base.addresses import cluster_address
from pipeline.base.choices import (
    EMBEDDED,
    GUARDIANS,
    NO_PROGRAM,
    PROMPTS,
    PROPOSERS,
    SEARCH,
    SELECTIONS,
    GuardianMode,
    Objective,
    OptimizerName,
    PromptKind,
    ProposerKind,
    SelectionName,
)
from pipeline.base.files import writable_folder
from pipeline.base.settings import Config, Count, Natural, Option, Positive, Price, Temperatures

LM = "the LM"
AGENT = "the agent"
TUNING = "settings of single optimizers"
SAMPLING = "sampling"
BUDGET = "budget (unlimited by default; a run that reaches a limit ends with the results so far)"
EARLIER_RUNS = "earlier runs (RUN is an id, or the beginning of an id or of a run's name)"


def _no_search(text: str) -> str:
    if text == SEARCH:
        hint = "it runs what it tries, so that pass@k does not apply: see pipeline.generate"
        raise ValueError(f"expected one of {', '.join(PROPOSERS)}, got {text!r} ({hint})")
    return text


class LMConfig(Config):
    """Settings of the LM and its requests."""

    api_base: Annotated[
        str | None, Option("the address of an OpenAI-compatible server", LM, "URL", resume="changed")
    ] = None
    max_tokens: Annotated[
        Count, Option("length limit of an answer, reasoning included; truncated answers are counted", LM, "N")
    ] = 4096
    timeout: Annotated[
        Positive, Option("seconds without data before a request is retried", LM, "SECONDS", resume="changed")
    ] = 600.0
    batch_n: Annotated[
        Count,
        Option(
            "completions per request, where the provider supports `n`: the prompt is then paid for once",
            *(LM, "N"),
            resume="changed",
        ),
    ] = 1
    context: Annotated[
        Count | None,
        Option(
            "tokens that the LM reads and writes in one request; demonstrations that do not fit are left out, easiest"
            " first (default: as the model's data or its server says, or its first refusal)",
            *(LM, "N"),
        ),
    ] = None
    max_demos: Annotated[Natural | None, Option("demonstrations in a prompt, at most; the hardest stay", LM, "N")] = (
        None
    )
    price: Annotated[
        Price | None,
        Option(
            "dollars per million input and output tokens (default: as the model's data says)",
            *(LM, "IN,OUT"),
            resume="changed",
        ),
    ] = None


class AgentConfig(Config):
    """How the agent is built."""

    guardian: Annotated[
        GuardianMode,
        Option(
            "what repairs a program that consumes a stream twice: `gated`, the LM, asked only when the exact check"
            " finds a violation; `paper`, the LM, asked about every proposal; `compiler`, a pass without an LM; `none`",
            AGENT,
        ),
    ] = GUARDIANS[0]
    proposer: Annotated[
        ProposerKind,
        Option(
            "`predict`, the program directly; `cot`, with reasoning first; `react`, in several turns with tools that"
            " check types and shapes and verify on solved examples",
            AGENT,
            check=_no_search,
        ),
    ] = PROPOSERS[0]
    refine: Annotated[
        Natural,
        Option(
            "let the LM repair a failed answer up to K times, given the verifier's diagnostics; it still counts as one"
            " answer",
            *(AGENT, "K"),
        ),
    ] = 0
    prompt: Annotated[
        PromptKind,
        Option("the base prompts: `full`, or `short`, of 3,000 tokens at most, for a small context window", AGENT),
    ] = PROMPTS[0]
    no_ir: Annotated[
        bool, Option("prompts in plain Python, without the structural IR (an ablation in the paper)", AGENT)
    ] = False

    @property
    def ir(self) -> bool:
        """Whether prompts use the structural IR."""
        return not self.no_ir


class ClusterConfig(Config):
    """On which machines the work is done."""

    cluster: Annotated[
        str | None,
        Option(
            "verify, search and run the embedded LM on the nodes of a Dask cluster, `tcp://HOST:8786`, or `local:N` for"
            " N nodes of this machine; the results don't depend on it (default, and `none`: this machine's cores)",
            *(SAMPLING, "ADDRESS"),
            resume="changed",
            check=cluster_address,
        ),
    ] = None


class SamplingConfig(ClusterConfig):
    """How answers are sampled and verified."""

    samples: Annotated[
        Count, Option("answers per task and temperature, at most, in one pass over the tasks", SAMPLING, "N")
    ] = 64
    temperatures: Annotated[Temperatures, Option("sampling temperatures, separated by commas", SAMPLING, "T,T")] = (
        0.4,
        0.7,
        1.0,
    )
    threads: Annotated[
        Count | None,
        Option(
            "requests in flight at a time; the results don't depend on it (default: 16; embedded: two per core, four"
            " per worker of a cluster)",
            *(SAMPLING, "N"),
            resume="changed",
        ),
    ] = None
    seed: Annotated[Natural, Option("the same seed gives the same answers", SAMPLING, "N")] = 0
    verdict_cache: Annotated[
        str | None,
        Option(
            "keep verdicts in this folder, and verify no known program again; several runs may share it. Not for tasks"
            " whose code reads anything outside their files (default: verdicts are kept until the run ends)",
            *(SAMPLING, "DIR"),
            resume="changed",
            check=writable_folder,
        ),
    ] = None


class BudgetConfig(Config):
    """When to stop before all tasks are solved."""

    max_tokens_total: Annotated[
        Count | None, Option("prompt and completion tokens together", BUDGET, "N", resume="changed")
    ] = None
    max_usd: Annotated[Positive | None, Option("requires a known price, or --price", BUDGET, "X", resume="changed")] = (
        None
    )
    max_minutes: Annotated[Positive | None, Option("holds within a request, too", BUDGET, "X", resume="changed")] = None


class LearningConfig(Config):
    """How the agent learns over iterations."""

    granularity: Annotated[Count, Option("levels of difficulty that solved tasks are sorted into", SAMPLING, "M")] = 3
    selection: Annotated[
        SelectionName,
        Option(
            "what `adaptive` shows next. For all tasks alike: `adaptive`, the paper's levels of difficulty, the hardest"
            " first; `everything`; `hard-first`; `easy-first`; `random`. For each task: `similar`, the nearest solved"
            " tasks; `mmr`, the nearest that differ; `coverage`, those that together have the task's structures;"
            " `utility`, those that helped before; `hybrid`, coverage and utility within the levels",
            SAMPLING,
        ),
    ] = SELECTIONS[0]
    demo_tokens: Annotated[
        Count | None,
        Option("estimated tokens of all demonstrations in a prompt, at most (default: no limit)", SAMPLING, "N"),
    ] = None
    objective: Annotated[
        Objective,
        Option(
            "what to prefer among right answers: `correctness`, the shortest; or the cheapest by a figure of its cost"
            " (docs/cost.md). Then solved tasks are sampled on until the budget is reached, or nothing gets cheaper",
            SAMPLING,
        ),
    ] = "correctness"
    max_iterations: Annotated[
        Count | None, Option("iterations, each a pass over the unsolved tasks", BUDGET, "N", resume="changed")
    ] = None


Tasks = Annotated[
    tuple[str, ...] | None,
    Option(
        "task files, folders, patterns, or benchmark names such as gemm/1 and 'bmm/*' (default: the benchmark)",
        metavar="PATH|GLOB",
        nargs="+",
        resume="input",
    ),
]


class SkillsConfig(Config):
    """What the base prompt takes from earlier runs."""

    skills: Annotated[
        Natural,
        Option(
            "show the LM this many patterns that are mined from the programs of --experience: the sub-programs whose"
            " abstraction shortens them most",
            *(EARLIER_RUNS, "N"),
        ),
    ] = 0


class RunConfig(LMConfig, AgentConfig, SamplingConfig, LearningConfig, BudgetConfig, SkillsConfig):
    """All settings of a run of `pipeline.compile`."""

    optimizer: Annotated[
        OptimizerName,
        Option(
            "`adaptive`: adaptive self-improvement learning; `none`: a single pass without demonstrations; or one of"
            " DSPy's own, whose program is then measured by a pass: `bootstrap`, `random-search`, `mipro`, `simba`,"
            " `gepa`"
        ),
    ]
    tasks: Tasks = None
    lm: Annotated[
        str,
        Option("a DSPy/LiteLLM model string such as openai/gpt-4o, or `embedded`: offline, no key", LM, "MODEL"),
    ] = EMBEDDED
    reflection_lm: Annotated[
        str | None,
        Option("writes instructions for `mipro`, `simba` and `gepa` (default: the LM of --lm)", TUNING, "MODEL"),
    ] = None
    validation: Annotated[
        tuple[str, ...] | None,
        Option(
            "the tasks on which `random-search`, `mipro` and `gepa` choose among programs (default: those of --tasks),"
            " and `adaptive` the level of its demonstrations (default: the hardest)",
            *(TUNING, "PATH|GLOB"),
            nargs="+",
            resume="input",
        ),
    ] = None
    experience: Annotated[
        str | None,
        Option(
            "start from what a run learned (its experience.json); only the tasks that it did not solve are sampled",
            *(EARLIER_RUNS, "RUN|FILE"),
            resume="input",
        ),
    ] = None

    def recorded(self) -> dict[str, Any]:
        """The settings in JSON's types, without the inputs, which a run records in full."""
        inputs = {name for name in type(self).model_fields if Option.of(type(self), name).resume == "input"}
        return self.model_dump(mode="json", exclude=inputs)


class ProgramConfig(LMConfig, AgentConfig, SamplingConfig, BudgetConfig):
    """A fixed program, demonstrations included; a compiled one determines the agent's settings."""

    program: Annotated[
        str,
        Option(
            f"a compiled program, such as pipeline.compile writes; `{NO_PROGRAM}`: the uncompiled agent", metavar="P"
        ),
    ]
    lm: Annotated[
        str | None,
        Option(
            "a DSPy/LiteLLM model string such as openai/gpt-4o, or `embedded`: offline, no key (default: the one that"
            " the program was compiled with, otherwise embedded)",
            *(LM, "MODEL"),
        ),
    ] = None


class AblationConfig(LMConfig, SamplingConfig, LearningConfig, BudgetConfig, SkillsConfig):
    """What all runs of an ablation share."""
