"""Order-contrastive pre-training (Agrawal et al. 2022)."""
