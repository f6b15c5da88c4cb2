"""Whether a program computes what its reference does in exact arithmetic, at given sizes; see `proof`."""
