"""CoLES and the methods it is compared with (Babaev et al. 2022)."""
