"""`gpt2 bench`: how fast a model runs on this machine."""
