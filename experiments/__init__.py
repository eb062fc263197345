"""Experiments outside the package, one folder per paper or question; `python -m experiments.NAME` lists the tables."""
