"""The base of the pipeline: errors, paths, files, versions, choices, the configuration of a run."""
