"""Converts GPT-2 checkpoints to model folders: an ONNX graph with past key/values."""

import os

# As in gpt2cli: ONNX Runtime would report to Microsoft what it runs.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
