"""GPT-2 text generation on the command line, on ONNX Runtime."""

import os

# Before they are imported: from 1.29 on ONNX Runtime's packages report to Microsoft what they run,
# and keep a database for that; huggingface_hub asks its hub for a list of coding agents, and names
# the one it runs under in every request.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
