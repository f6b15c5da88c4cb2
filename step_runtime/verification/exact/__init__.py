"""Whether program and reference are equal in exact arithmetic, at given sizes; see `proof`."""
