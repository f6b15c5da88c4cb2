"""Program text to dataflow graph, and when two texts mean the same."""
