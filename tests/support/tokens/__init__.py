"""The meaning of programs on tokens: slow, obvious, and independent of the simulator.

A stream is a sequence of values and stop tokens, as it would run through a queue on the chip (paper, Sections
2.3 and A.1, Figure 21), and every primitive is a transformer of such sequences that calls its function on one
element at a time. The simulator is held to this; nothing is executed in common.
"""

from tests.support.tokens.run import run_tokens, trace_tokens
from tests.support.tokens.sequence import Stop, Token, Tokens, Value, decode, encode, join, render, split

__all__ = [
    "Stop", "Token", "Tokens", "Value", "decode", "encode", "join", "render", "run_tokens", "split", "trace_tokens",
]  # fmt: skip
