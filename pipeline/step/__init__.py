"""STeP as a language of the pipeline, implemented by `step_runtime`."""
