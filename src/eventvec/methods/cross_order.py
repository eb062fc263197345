"""Pairs of windows through a cross-encoder, which reads both windows as one row, as BERT does."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from eventvec.encoders.interface import Encoder, capabilities
from eventvec.errors import ConfigError
from eventvec.methods.declarations import Suggestion
from eventvec.methods.order_contrastive import PairClassifier
from eventvec.sequences import Sequences, join
from eventvec.views import OrderPairs, Windowed
from eventvec.views.sizes import window_length


class CrossOrder(PairClassifier):
    """A classifier of pairs over both windows as one row, `join(first, second)` (Agrawal et al. 2022, Section 4.2).

    With a `TextEncoder` this is the paper's BERT, which reads `[CLS] first [SEP] second [SEP]`; a linear layer predicts
    the label from the row's embedding. A single row is embedded like a first window without a second one. With
    ``keep="best"``, the best epoch is the one with the best accuracy on held-out pairs, as in the paper (Appendix C.2).

    Relations: `Order` encodes each window separately, so it learns a representation of a single window.

    Args:
        encoder: Encoder that is trained, `encoder(x) -> (n, dim)`. It must distinguish the two windows: a
            `TextEncoder`, or any encoder whose `events` are `Segmented`.
        pairs: How windows are paired and labelled.

    Raises:
        ConfigError: If the encoder does not read the column `segment`.

    Example:
        >>> import eventvec as ev
        >>> events = ev.encoders.Segmented(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")))
        >>> x = Sequences({"gap": torch.arange(4.0), "time": torch.arange(4)}, torch.tensor([0]), torch.tensor([4]))
        >>> CrossOrder(ev.encoders.GRU(events, dim=8), OrderPairs(length=2)).loss(x, torch.Generator()).item() > 0
        True
    """

    scored_by = "accuracy"

    def __init__(self, encoder: Encoder, pairs: Windowed = OrderPairs()) -> None:  # noqa: B008 (frozen)
        super().__init__(encoder, pairs)
        if not (capabilities(encoder).joins or capabilities(capabilities(encoder).events).joins):
            raise ConfigError(
                f"encoder must distinguish the second window from the first, got {type(encoder).__name__}; accepted: "
                "the encoder `text`, and others with events = Segmented(EventEncoder(schema)) (`segmented`)"
            )
        self.classifier = nn.Linear(encoder.dim, 1)

    def logits(self, views: Sequences) -> Tensor:
        """Return `(m,)` log-odds that each pair of `2m` views, first members before second members, has label 1."""
        m = len(views) // 2
        return torch.squeeze(self.classifier(self.encoder(join(views[:m], views[m:]))), -1).float()

    def validation_score(self, batches: Iterable[Sequences]) -> float:
        """Return the share of the pairs of all batches that are labelled correctly, drawn with one seed."""
        correct = count = 0
        rng: torch.Generator | None = None
        for batch in batches:
            rng = rng or torch.Generator(batch.device).manual_seed(0)
            views, label = self.pairs(batch, rng)
            correct += int(((self.logits(views) > 0) == (label == 1)).sum())
            count += len(label)
        return correct / count

    @staticmethod
    def suggested(x: Sequences) -> Suggestion:
        """Return windows as long as those of `ocp`, and a recurrent encoder that distinguishes the two windows."""
        pairs = {"name": "order_pairs", "length": window_length(x)}
        return {"method": {"pairs": pairs}, "encoder": {"name": "gru", "events": {"name": "segmented"}}}
