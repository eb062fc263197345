"""How sure predicted numbers are: coverage and width of intervals on real tables."""
