"""`gpt2 doctor`: what this machine can run, and what mends what it cannot."""
