"""Pairs of windows through a cross-encoder, which reads the second behind the first, as BERT does."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.sets import complete
from eventvec.errors import ConfigError
from eventvec.sequences import Sequences, join
from eventvec.views.pairs import OrderPairs, Windowed


class CrossOrder(nn.Module):
    """A pair classifier over both windows as one row, `join(first, second)` (Agrawal et al. 2022, Section 5.2).

    With a `TextEncoder` it is the paper's BERT, which reads `[CLS] first [SEP] second [SEP]`: a linear layer says from
    the row's embedding what the label is. An embedding of a single row is that of a first window alone.

    Relations: `Order` encodes each window by itself, so that what it learns is a representation of one.

    Args:
        encoder: trained, `encoder(x) -> (n, dim)`; must tell the two windows apart: `TextEncoder`, or any with
            `events` of `Segmented`.
        pairs: how windows are paired and labelled.

    Raises:
        ConfigError: the encoder does not read the column `segment`.

    Example:
        >>> from eventvec import EventEncoder, GRU, Schema
        >>> from eventvec.encoders.segments import Segmented
        >>> from eventvec.schema import Categorical, Numeric
        >>> schema = Schema("id", "t", "integer", categorical=(Categorical("code", ("a", "b")),))
        >>> method = CrossOrder(GRU(Segmented(EventEncoder(schema, time=())), dim=8), OrderPairs(length=2))
        >>> x = Sequences({"code": torch.tensor([2, 2, 3, 3])}, torch.tensor([0]), torch.tensor([4]))
        >>> 0.3 < method.loss(x, torch.Generator().manual_seed(0)).item() < 1.5
        True
    """

    def __init__(self, encoder: nn.Module, pairs: Windowed = OrderPairs()) -> None:  # noqa: B008 (frozen)
        super().__init__()
        if not getattr(encoder, "joins", False) and not getattr(getattr(encoder, "events", None), "joins", False):
            raise ConfigError(
                f"the encoder, a {type(encoder).__name__}, cannot tell the second window from the first; accepted are "
                "the encoder `text`, and others with events = Segmented(EventEncoder(schema)) (`segmented`)"
            )
        self.encoder, self.pairs = encoder, pairs
        self.classifier = nn.Linear(int(encoder.dim), 1)  # type: ignore[arg-type]

    def logits(self, views: Sequences) -> Tensor:
        """Return `(m,)` log-odds that each pair of `2m` views, firsts and then seconds, has label 1."""
        m = len(views) // 2
        return torch.squeeze(self.classifier(self.encoder(join(views[:m], views[m:]))), -1).float()

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean cross-entropy of the pairs of a batch."""
        views, label = self.pairs(batch, rng)
        return F.binary_cross_entropy_with_logits(self.logits(views), label)

    forward = loss

    def usable(self, data: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with at least one pair in order."""
        return self.pairs.usable(data) & complete(self.encoder, data)
