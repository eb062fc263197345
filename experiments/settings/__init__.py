"""What settings other than the defaults change, on three data sets."""
