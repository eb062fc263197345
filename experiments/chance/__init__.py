"""Whether every printed score is at chance where the labels are random."""
