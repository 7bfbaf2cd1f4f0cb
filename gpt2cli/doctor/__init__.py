"""`gpt2 doctor`: what this machine can run, and how to fix what it cannot."""
