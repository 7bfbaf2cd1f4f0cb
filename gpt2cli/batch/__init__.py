"""`gpt2 batch`: records in, records out, in order, and resuming."""
