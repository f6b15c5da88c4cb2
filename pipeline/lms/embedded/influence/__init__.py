"""Which elements of the inputs each element of a value may depend on, by the text of a task's code."""
