"""Solved examples that resemble a task: which of their applications serve as precedents."""
