"""Tests of `gpt2 replay`."""
