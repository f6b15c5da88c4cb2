"""The LMs: any DSPy model string, or the embedded offline proposers."""
