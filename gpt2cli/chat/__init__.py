"""`gpt2 chat`: the conversation, what the model sees of it, and the prompt line."""
