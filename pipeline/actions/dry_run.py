"""`pipeline.compile --dry-run`: the least and the most that a run takes, without a request to the LM.

At least: one pass that solves every task, with answers of one token, and the search of one of DSPy's optimizers before
it. At most: passes as many as Algorithm 1 can make,
each prompt as long as its demonstrations or the context window allow, each answer as long as `--max-tokens` allows,
every module asked as often as it may be, and the limits of the budget. Requests that fail cost nothing, and do not
count; answers in flight when a limit is reached come on top.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from optimizers import Budget, Price, TokenCount
from optimizers.baselines import OPTIMIZERS, Baseline, Search, affordable
from optimizers.ledger import estimate_tokens, message_text
from pipeline.agent.agent import TURNS, Agent
from pipeline.base.config import RunConfig
from pipeline.base.errors import UsageError
from pipeline.base.outputs import DryRunBounds, json_text
from pipeline.base.settings import is_embedded
from pipeline.base.text import console, figures_table, print_lines
from pipeline.languages.language import Task
from pipeline.lms.model_data import known_context, known_price
from pipeline.record.request import Request
from pipeline.running.job import resamples
from pipeline.running.plan import new_agent
from signatures import YAMLAdapter
from signatures.lines import MOST_LINES


def estimate(request: Request) -> tuple[DryRunBounds, DryRunBounds]:
    """The least and the most that a run takes.

    Raises:
        UsageError: There is a limit in dollars, and no known price.
    """
    config = request.config
    price = Price(*config.price) if config.price else _own_price(config.lm)
    agent = new_agent(config)
    prompts = [_prompt_tokens(agent, task) for task in request.tasks]
    temperatures, fewest = len(config.temperatures), min(config.samples, config.stop_after or config.samples)
    paid, samples = math.ceil(fewest / config.batch_n) * temperatures, config.samples * temperatures
    search = _search(request, agent, prompts)
    runs = paid * len(prompts) + search.least
    least = _bounds(
        runs, runs * sum(prompts) // len(prompts), fewest * temperatures * len(prompts) + search.least, price
    )
    passes, calls = _passes(config, least, len(prompts)), _calls(config)
    longest = max(prompts) + _demonstrations(config, request.tasks)
    if (context := config.context or (None if is_embedded(config.lm) else known_context(config.lm, None))) is not None:
        longest = min(longest, context)
    most = (passes * samples + search.most) * calls + search.own
    return least, _limited(_bounds(most, most * longest, most * config.max_tokens, price), config)


def both_as_json(least: DryRunBounds, most: DryRunBounds) -> dict[str, Any]:
    """The bounds for machines."""
    return {"least": least.model_dump(), "most": most.model_dump()}


def as_text(least: DryRunBounds, most: DryRunBounds, config: RunConfig) -> str:
    """The bounds for people."""
    rows = [
        f"requests    {least.requests:,} to {most.requests:,}",
        f"tokens in   {least.prompt:,} to {most.prompt:,}",
        f"tokens out  {least.completion:,} to {most.completion:,}",
    ]
    if least.usd is None or most.usd is None:
        rows.append("dollars     unknown: the LM's price is not known; see --price")
    else:
        rows.append(f"dollars     {least.usd:,.2f} to {most.usd:,.2f}")
    rows.append("at least: one pass solves all tasks; at most: every pass of the algorithm, each answer at full length")
    if config.split:
        rows.append("the requests for sub-tasks of unsolved tasks come on top, up to the budget")
    return "\n".join(rows)


def _search(request: Request, agent: Agent, prompts: Sequence[int]) -> Search:
    """What one of DSPy's optimizers does first; nothing for the others."""
    config, kind, predictors = request.config, OPTIMIZERS[request.config.optimizer], len(agent.predictors())
    if not issubclass(kind, Baseline):
        return Search(0, 0)
    runs = affordable(Budget(tokens=config.max_tokens_total), max(prompts) * predictors, predictors)
    validation = len(request.validation) or len(prompts)
    return kind.search(len(prompts), validation, config.samples, predictors, runs)


def _own_price(model: str) -> Price | None:
    return Price(0.0, 0.0) if is_embedded(model) else known_price(model)


def _bounds(requests: int, prompt: int, completion: int, price: Price | None) -> DryRunBounds:
    usd = price.of(TokenCount(prompt=prompt, completion=completion)) if price else None
    return DryRunBounds(requests=requests, prompt=prompt, completion=completion, usd=usd)


def _limited(most: DryRunBounds, config: RunConfig) -> DryRunBounds:
    """The bounds within the budget of tokens and dollars."""
    tokens, usd = config.max_tokens_total, most.usd
    prompt, completion = most.prompt, most.completion
    if tokens is not None:
        prompt, completion = min(prompt, tokens), min(completion, tokens)
    if usd is not None and config.max_usd is not None:
        usd = min(usd, config.max_usd)
    return most.model_copy(update={"prompt": prompt, "completion": completion, "usd": usd})


def total(bounds: Iterable[DryRunBounds]) -> DryRunBounds:
    """The sum; dollars are null if a price is unknown."""
    each = list(bounds)
    known = [bound.usd for bound in each if bound.usd is not None]
    return DryRunBounds(
        requests=sum(bound.requests for bound in each),
        prompt=sum(bound.prompt for bound in each),
        completion=sum(bound.completion for bound in each),
        usd=sum(known) if len(known) == len(each) else None,
    )


def print_table(
    name: str, found: Mapping[str, tuple[int, DryRunBounds, DryRunBounds]], heading: str, *, as_json: bool
) -> None:
    """Prints a command's runs of each configuration, the least and the most that they take, and the sum."""
    if as_json:
        rows = {key: {"runs": count, **both_as_json(*bounds)} for key, (count, *bounds) in found.items()}
        print_lines(console(), json_text(name, {"configurations": rows}))
        return
    table = figures_table(heading, "runs", "requests", "tokens in", "tokens out", "dollars")
    runs = sum(count for count, _, _ in found.values())
    whole = runs, total(least for _, least, _ in found.values()), total(most for _, _, most in found.values())
    for key, (count, least, most) in {**found, "together": whole}.items():
        counts = (
            f"{getattr(least, unit):,} to {getattr(most, unit):,}" for unit in ("requests", "prompt", "completion")
        )
        usd = "unknown" if least.usd is None or most.usd is None else f"{least.usd:,.2f} to {most.usd:,.2f}"
        table.add_row(key, str(count), *counts, usd)
    console().print(table)


def _passes(config: RunConfig, least: DryRunBounds, tasks: int) -> int:
    """Passes over one task, summed over tasks: each cycle has at most as many passes as levels, and solves one.

    A run without learning makes as many passes as its limits allow; `least` is what one over all tasks takes.

    Raises:
        UsageError: It has no limit but one of time.
    """
    if resamples(config):
        limits = [config.max_iterations] if config.max_iterations is not None else []
        if config.max_tokens_total is not None:
            limits.append(math.ceil(config.max_tokens_total / max(1, least.prompt + least.completion)))
        if config.max_usd is not None and least.usd:
            limits.append(math.ceil(config.max_usd / least.usd))
        if not limits:
            raise UsageError("--dry-run: a run without learning has no other end than its limits; add --max-iterations")
        return tasks * min(limits)
    if config.optimizer != "adaptive":
        return tasks
    sizes = [tasks] + [left for left in range(tasks - 1, 0, -1) for _ in range(config.granularity)]
    return sum(sizes[: config.max_iterations])


def _calls(config: RunConfig) -> int:
    """Requests of one sample, at most."""
    proposer = {"react": TURNS + 1, "typed": MOST_LINES}.get(config.proposer, 1)
    guardian = int(config.guardian in ("gated", "paper"))
    return proposer + guardian + config.refine * (1 + guardian)


def _prompt_tokens(agent: Agent, task: Task) -> int:
    """Tokens of a task's first request."""
    predictor = agent.proposer.predictors()[0]
    messages = YAMLAdapter().format(predictor.signature, [], {"task": task.without_impl()})
    return sum(estimate_tokens(message_text(message)) for message in messages)


def _demonstrations(config: RunConfig, tasks: Any) -> int:
    """Tokens of all demonstrations, each with an answer at full length."""
    sizes = sorted((estimate_tokens(task.statement) + config.max_tokens for task in tasks), reverse=True)
    return sum(sizes[: config.max_demos]) if config.optimizer != "none" else 0
