"""Everything a person sees: which stream, what is safe to show, progress and statistics."""
