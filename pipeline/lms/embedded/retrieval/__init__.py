"""Solved examples that resemble a task, and which of their applications serve as precedents."""
