"""A program as a dataflow graph: its nodes, its text, its limits, its class."""
