"""What the commands share: options, progress display, summaries."""
