"""`gpt2 generate`: one prompt, one or several completions."""
