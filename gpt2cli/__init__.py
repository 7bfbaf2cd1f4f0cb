"""GPT-2 text generation on the command line, on ONNX Runtime."""

import os

# From 1.29 on ONNX Runtime's packages tell Microsoft what they run, and keep a database for it,
# unless this stands in the environment before they are imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
