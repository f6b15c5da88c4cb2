"""The structural IR: a task as Pydantic models, read from YAML, validated, with the scope its programs see."""
