"""What the embedding is worth: candidates for the defaults, chosen on one half of the entities, judged on the other."""
