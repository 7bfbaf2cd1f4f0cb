"""`gpt2 serve`: a model that stays loaded, and answers over HTTP as OpenAI's API does."""
