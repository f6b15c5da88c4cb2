"""The embedded proposers: offline stand-ins for an LM, that write STeP programs by search.

They stand behind an engine for `dspy.LM`, so they go through the same adapter, parsing, accounting and tracking as
any LM:

    engine = engine_named("embedded")  # or "embedded/small"
    dspy.LM(engine.model, engine=engine)

What they see is the text of a request: the instructions with their solved examples, the demonstrations, the task (its
functions' code and its PyTorch reference as text, never a solution), the temperature and the seed. What they
never do: run a candidate, the reference, a function or `global`; verify; look at names to guess what they mean; keep
anything from one request to the next but what it works out from the same texts again.

How the strong one answers, a module each:

    reading       request → instructions, demonstrations, task, fields to answer
    task_view     a task → what it offers: functions, and routings (functions among which an index chooses)
    layout        one stream type → another by structural primitives: keep, insert, drop, merge and split dims
    space         questions about types, answered once per task: who can serve whom, and at which shape they meet
    terms         what code computes, as sums of products over operations
    vocabulary,   PyTorch code as text → terms
      definitions,
      torch_text
    reference     a task's reference and functions → which applications are steps towards the outputs
    trail         one draft's progress along that reading
    choice        a sample's randomness: one seed, and how sharply scores decide
    meeting       a function and its sources → a move, with coercions and folds
    ending        which streams are the outputs
    search        draws drafts, function first, until all functions are used and only the outputs are left over
    moves         a draft → a program's graph: equal nodes once, nothing dead, Copies put in
    scoring       n-grams of moves over kinds of type and shape, counted in examples and demonstrations
    roles         what a function does, read off its code with all names made equal
    outlines      a solved task: what was applied to what, and how much that has to do with another task
    precedents    how well solved tasks support applying a function to streams that were made like this
    counsel       what precedents advise next, while a program grows
    proposer      one sample: several drafts, one chosen by score; and the guardian's repair
    engine        requests in, responses out

Most samples follow the reading of the reference, some ignore it, as it may be wrong. Temperature flattens or sharpens
every choice. Budgets are numbers of tries, so the same seed gives the same answer on any machine.

The small one has no reading and no plan, and sees of a function its types and how like it is to others:

    steps         types → what one primitive can do next
    ngrams        which step follows which, counted in examples and demonstrations
    paths         which steps lead to what a precedent shows
    small         one walk after the other, until one ends
"""

from pipeline.lms.embedded.engine import EmbeddedEngine
from pipeline.lms.embedded.proposer import Strong
from pipeline.lms.embedded.small import Small

__all__ = ["EmbeddedEngine", "Small", "Strong", "engine_named"]


def engine_named(model: str) -> EmbeddedEngine:
    """The engine for `embedded` or `embedded/small`, with or without a version behind it."""
    size = model.partition("/")[2].partition("-")[0]
    return EmbeddedEngine(Small() if size == "small" else Strong())
