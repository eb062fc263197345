"""The names of the methods and encoders of eventvec, for those who must not import the parts themselves, such as help.

A test compares them with `methods.METHODS` and `encoders.ENCODERS`.
"""

from __future__ import annotations

METHODS = (
    "acnp", "acnp_cross", "cnp", "coles", "coles_paper", "cpc", "cresp", "cresp_untargeted", "cross_order",
    "entity_contrastive", "expclr", "expert_triplets", "fclr", "masked_language", "metacde", "next_event", "nsp", "ocp",
    "ocp_biased", "pcl", "rtd", "siamese", "sop", "supervised", "tpp_embedding", "ts2vec",
)  # fmt: skip
ENCODERS = (
    "cross_attention", "gru", "kernel_mean", "language", "lstm", "resnet", "set", "tcn", "text", "transformer",
    "transformer_paper",
)  # fmt: skip
WITH_PARAGRAPH = ("acnp", "acnp_cross", "cnp", "cresp", "metacde")
"""The methods that have a paragraph of their own in the card of a run."""
