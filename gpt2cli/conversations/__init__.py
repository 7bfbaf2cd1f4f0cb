"""What a conversation is, and what a model sees of it: for the chat and the server."""
