"""Stream types: coercions by structural primitives, and cached queries about the types of one task."""
