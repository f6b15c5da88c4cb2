"""The base of the language: errors, element types, shapes, functions, streams."""
