"""Benchmarks of speed and memory, outside the package: `python -m benchmarks.NAME [--small] [--json]` runs one."""
