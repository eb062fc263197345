"""Protocols that others published, with their numbers on the same split beside those of eventvec."""
