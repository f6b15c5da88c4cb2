"""What every part of the pipeline may use: errors, paths, files, versions, choices, the configuration of a run."""
