"""PyTorch code as text: what a task's functions and its reference compute, as terms of an algebra."""
