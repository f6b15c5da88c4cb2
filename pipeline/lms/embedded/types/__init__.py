"""Stream types: coercions by structural primitives, and what is asked about the types of one task."""
