"""The fourth reading of a task: what each element is computed by, as polynomials that are compared by fingerprints."""
