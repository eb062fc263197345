"""The main job on real data, beside reference values that were measured before eventvec was written."""
