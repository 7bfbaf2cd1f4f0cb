"""`gpt2 replay`: runs what records tell of again, and compares the texts."""
