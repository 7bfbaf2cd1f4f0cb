"""`gpt2 score`: the log-probability of each token of a text, and the perplexity."""
