"""The code that does input and output: API servers, providers, files, logs and metrics."""
