"""The tokens that a trained text encoder attends to (Agrawal et al. 2022, Appendix C.2)."""

from __future__ import annotations

import torch

from eventvec.encoders import TextEncoder
from eventvec.encoders.backbones import blocks
from eventvec.sequences import Sequences


@torch.no_grad()
def mean_attention(encoder: TextEncoder, x: Sequences, least: int = 1) -> dict[str, float]:
    """Return the mean attention from the first token to each token of the vocabulary in the last layer, highest first.

    The mean is taken over all positions of the token and over the heads. Special tokens are left out, although most
    of the attention goes to them. The paper names 21 tokens above 0.1.

    Args:
        encoder: a trained encoder.
        x: rows, or joined pairs such as ``join(first, second)`` of the held-out pairs.
        least: number of times that a token occurs at least; the others are left out.

    Example:
        >>> mean_attention(encoder, join(views[:100], views[100:]))  # doctest: +SKIP
        {'increased': 0.31, 'stable': 0.22, ...}
    """
    training, model = encoder.training, encoder.model
    implementation = model.config._attn_implementation
    tokens = encoder.tokens(x)
    size = int(model.config.vocab_size)
    sums, counts = (torch.zeros(size, dtype=torch.float64, device=x.device) for _ in range(2))
    encoder.eval()
    model.set_attn_implementation("eager")  # the only implementation that returns attention weights
    try:
        for rows in blocks(tokens):
            block = tokens[rows]
            weights = model(**encoder.inputs(block), output_attentions=True).attentions[-1][:, :, 0].mean(1)
            regular = block.values("special") == 0
            token = block.values("token")[regular]
            sums.index_add_(0, token, weights[block.rows(), block.steps()][regular].double())
            counts.index_add_(0, token, torch.ones_like(token, dtype=torch.float64))
    finally:
        model.set_attn_implementation(implementation)
        encoder.train(training)
    mean = sums / counts
    present = (counts >= max(least, 1)).nonzero().squeeze(1)
    present = present[mean[present].argsort(descending=True, stable=True)]
    return {encoder.tokenizer.id_to_token(token): float(mean[token]) for token in present.tolist()}
