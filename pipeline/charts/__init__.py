"""Figures drawn from a run or a program."""
