"""What everything in the language builds on: errors, element types, shapes, functions, streams."""
