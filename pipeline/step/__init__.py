"""STeP as the first language of the seam: what the core asks of a language, answered by `step_runtime`."""
