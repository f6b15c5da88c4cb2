"""Pictures of a run or a program."""
