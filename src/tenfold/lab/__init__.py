"""The workbench: measuring. It may import every room; only the command line imports it."""
