"""A shop's customers worked through to a decision with reasons."""
