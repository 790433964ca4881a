"""Measurements, one command each: `python -m benchmarks.<name>`. `make bench` runs the comparisons."""
