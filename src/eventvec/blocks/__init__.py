"""Blocks of features of histories: without training, of static columns, of earlier labels, of a caller's table."""
