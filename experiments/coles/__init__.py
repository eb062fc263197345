"""CoLES and what it is compared with."""
