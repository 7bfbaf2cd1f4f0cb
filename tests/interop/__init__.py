"""Other programs load what `gpt2 export --portable` wrote; run by hand, README.md says how."""
