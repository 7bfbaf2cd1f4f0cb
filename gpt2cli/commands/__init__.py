"""One module per command: options → one call into the core → the result to the terminal."""
