"""How a task's outputs depend on its inputs, by the text of its code: which operations a value passes on its way."""
