"""`gpt2 batch --cluster`: the same run on the machines of a Ray cluster."""
