"""Symbolic interpretation of PyTorch code: a task's functions and its reference as terms of an algebra."""
