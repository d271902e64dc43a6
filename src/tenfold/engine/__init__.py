"""The loop that plans, runs and returns tokens; the Python API."""
