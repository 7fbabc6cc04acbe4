"""The way out of Python: traced functions as frozen programs, and their writers (npz, html, onnx)."""
