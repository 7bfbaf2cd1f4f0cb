"""Converts GPT-2 checkpoints to model folders: an ONNX graph with past key/values."""
