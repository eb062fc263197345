"""Labels beside the histories that they belong to."""
