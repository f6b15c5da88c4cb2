"""The reward: verdicts from killable worker processes, kept and shared."""
