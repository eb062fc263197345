"""The linear head of CReSP's experiments: trained on frozen embeddings by full-batch L-BFGS."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = 500


def regression(z: Tensor, y: Tensor, decay: float, steps: int = STEPS) -> nn.Linear:
    """Return a linear layer that minimises ``mean((W z + b - y)²) + decay · ΣW²`` (the code of Mathieu et al. 2021).

    Args:
        z: `(n, d)` embeddings, as the encoder returns them.
        y: `(n, k)` targets. The mean is over their elements.
        decay: The factor of the squared weights; the bias has none.
        steps: The largest number of iterations.

    Example:
        >>> z = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
        >>> head = regression(z, 2 * z[:, :1] + 1, decay=1e-9)
        >>> head.weight.round(decimals=3).tolist(), round(head.bias.item(), 3)
        ([[2.0, 0.0, 0.0]], 1.0)
    """
    z, y = z.double(), y.double()
    head = nn.Linear(z.shape[1], y.shape[1], dtype=torch.float64)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.copy_(y.mean(0))
    optimizer = torch.optim.LBFGS(head.parameters(), max_iter=steps, line_search_fn="strong_wolfe",
                                  tolerance_grad=1e-9, tolerance_change=1e-14, history_size=50)  # fmt: skip

    def loss() -> Tensor:
        optimizer.zero_grad()
        value: Tensor = F.mse_loss(head(z), y) + decay * head.weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    return head.requires_grad_(False)
