"""The benchmark against other programs that run GPT-2; nothing here is a test of pytest's."""
