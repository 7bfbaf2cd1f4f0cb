"""GPT-2 text generation on the command line, on ONNX Runtime."""
