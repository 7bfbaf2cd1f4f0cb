"""`gpt2 chat`: the conversation, what the model sees of it, and how a person types it."""
