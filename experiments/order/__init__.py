"""Order-contrastive pre-training (OCP, Agrawal et al. 2022): its synthetic study, and its worth on real histories."""
