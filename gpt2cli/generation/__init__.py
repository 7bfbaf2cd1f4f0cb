"""The decode loop: requests → slots → prefill → (sample, decode)* → chunks."""
