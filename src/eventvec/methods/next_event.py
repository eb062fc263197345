"""Next-event prediction: the state after each event gives a distribution of every field of the next, and of its gap."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec import distributed, losses
from eventvec.encoders.interface import check_states, state_size
from eventvec.errors import ConfigError
from eventvec.methods.declarations import StateEncoder, Suggestion
from eventvec.options import at_least
from eventvec.schema import Schema, check_schema
from eventvec.sequences import Sequences, keep_copy, on_host
from eventvec.views import RandomSlices
from eventvec.views.draws import integers
from eventvec.views.sizes import slice_bounds

COMPONENTS = 8
"""The number of log-normals in the mixture of gaps that depend on the state."""
BACKGROUND = 0.01
"""The weight of a standard normal of the scaled gap, which bounds the loss of a gap that no other component expects."""
CELLS = 2**24
"""The largest number of scores of a column at one time, when all scores are computed."""


class NextEvent(nn.Module):
    """A linear head on the state after each event for each field of the next event and for the time to it.

    A categorical column has a softmax over its codes, and a numeric column a softmax over its quantile bins (the edges
    in the schema); a missing value is a class of its own. The gap has a probability of zero and a mixture of
    log-normals (Shchur et al. 2020). The loss is the mean over predicted events of the sum of all negative log
    likelihoods, in nats, each with weight 1. Given the history, the fields of an event are independent of one another
    and of the gap. Karpukhin and Savchenko 2025 call this next-token prediction (public code: ivan-chai/pretpp).

    The gap is predicted as the schema scales it; its likelihood is a density of that number and may be above 1. Gaps on
    a grid, such as days, make components narrow, so deviations are at least .01, and a standard normal of fixed weight
    .01 bounds the loss of a gap that no other component expects. An event whose gap is missing has no loss for it.

    A column of more than `negatives` codes is trained by sampled softmax with that many draws, the same for all events
    of a batch: half uniform over the codes, half from the targets of the batch, with the log-q correction. Validation
    and surprise sum over all codes. Columns of lists and texts are read by the encoder, but not predicted.

    Relations: `CPC` tells the next events from others by their encoding; `RTD` sees the event that it judges.

    Args:
        encoder: Encoder that is trained; its states must not depend on later events: `gru` or `lstm`.
        schema: The columns, their codes and bins, and the scale of the gap.
        views: The slices of a row in which each event but the first is predicted; they bound the cost of long rows.
        negatives: The largest number of codes for which the sum over all codes is computed in training, and the number
            of draws for larger columns, at least 2.

    Raises:
        ConfigError: If the encoder has no such states, the views are no slices or may be shorter than 2 events, or
            `negatives` is below 2.

    Example:
        >>> import eventvec as ev
        >>> encoder = ev.encoders.GRU(ev.encoders.EventEncoder(ev.Schema("id", "t", "integer")), dim=8)
        >>> x = Sequences({"gap": torch.arange(8.0)}, torch.tensor([0, 4]), torch.tensor([4, 4]))
        >>> NextEvent(encoder, ev.Schema("id", "t", "integer")).loss(x, torch.Generator()).item() > 0
        True
    """

    def __init__(
        self,
        encoder: StateEncoder,
        schema: Schema,
        views: RandomSlices = RandomSlices(count=1, shortest=128, longest=128),  # noqa: B008 (frozen)
        negatives: int = 1000,
    ) -> None:
        super().__init__()
        check_schema(schema)
        at_least("negatives", negatives, 2)
        check_states(encoder, "gru, lstm", causal=True)
        if not isinstance(views, RandomSlices) or views.shortest < 2:
            raise ConfigError(f"views must be RandomSlices with shortest of at least 2 events, got {views}")
        self.encoder, self.schema, self.views, self.negatives = encoder, schema, views, negatives
        self.codes = nn.ModuleList(nn.Linear(state_size(encoder), column.size) for column in schema.categorical)
        self.bins = nn.ModuleList(nn.Linear(state_size(encoder), len(column.edges) + 2) for column in schema.numeric)
        self.gap = nn.Linear(state_size(encoder), 1 + 3 * COMPONENTS)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of what is predicted: the columns of codes, those of numbers, and `gap`."""
        return (*(column.name for column in self.schema.fields), "gap")

    def loss(self, batch: Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean over the events of the slices, first events excluded, of the sum over fields, in nats."""
        x, _ = self.views(batch, rng)
        later = _later(x)
        states = distributed.share(self.encoder.states, x, by_event=True)[later - 1]
        return self._nll(states, x, x.flat()[later], rng if self.training else None).nansum(1).mean()

    forward = loss

    def surprise(self, x: Sequences) -> Tensor:
        """Return `(total, fields)` the negative log likelihood of each event given those before it, in nats.

        The columns are those of `fields`. The first event of a row has NaN, and so has a gap that is missing.
        """
        later = _later(x)
        index, states = x.flat()[later], self.encoder.states(x)[later - 1]
        widest = max(head.out_features for head in self.modules() if isinstance(head, nn.Linear))
        size = max(1, CELLS // widest)
        surprise = states.new_full((x.total, len(self.fields)), math.nan, dtype=torch.float32)
        for some, events, places in zip(states.split(size), index.split(size), later.split(size), strict=True):
            surprise[places] = self._nll(some, x, events, None)
        return surprise

    def _nll(self, states: Tensor, x: Sequences, events: Tensor, rng: torch.Generator | None) -> Tensor:
        """Return `(m, fields)` negative log likelihoods of events, each after a state; NaN where the gap is missing.

        `events` `(m,)` are positions in the columns of x. Without `rng`, all codes are summed over.
        """
        values = {name: _column(x, name, events) for name in self.fields}
        parts = []
        for column, head in zip(self.schema.categorical, self.codes, strict=True):
            target = values[column.name].long()
            if rng is None or column.size <= self.negatives:
                parts.append(_exact(head, states, target))
            else:
                parts.append(self._sampled(head, states, target, rng))
        for number, head in zip(self.schema.numeric, self.bins, strict=True):
            parts.append(_exact(head, states, number.bins(values[number.name])))
        return torch.stack([*parts, self._gap_nll(states, values["gap"])], 1)

    def _sampled(self, head: nn.Module, states: Tensor, target: Tensor, rng: torch.Generator) -> Tensor:
        """Return `(m,)` estimates by sampled softmax; half of the codes are drawn uniformly, half from the targets."""
        assert isinstance(head, nn.Linear)
        size, uniform = head.out_features, self.negatives // 2
        others = self.negatives - uniform
        anywhere = integers(target.new_full((uniform,), size), rng)
        drawn = torch.cat([anywhere, target[integers(target.new_full((others,), len(target)), rng)]])
        expected = uniform / size + others * target.bincount(minlength=size)[drawn] / len(target)
        positive = (states * head.weight[target]).sum(1) + head.bias[target]
        negative = F.linear(states, head.weight[drawn], head.bias[drawn])
        return losses.sampled_softmax_nll(positive.float(), negative.float(), target, drawn, expected)

    def _gap_nll(self, states: Tensor, gap: Tensor) -> Tensor:
        """Return `(m,)` negative log likelihoods of gaps; NaN where the gap is missing."""
        zero, weights, means, raw = self.gap(states).float().split([1, *[COMPONENTS] * 3], 1)
        fixed = zero.new_full(zero.shape, math.log(BACKGROUND))
        log_weights = torch.cat([weights.log_softmax(1) + math.log1p(-BACKGROUND), fixed], 1)
        mean = torch.cat([means, torch.zeros_like(zero)], 1)
        deviation = torch.cat([losses.Gaussian().deviation(raw), torch.ones_like(zero)], 1)
        y = self.schema.gap.scale(gap).nan_to_num()
        nll = losses.gap_nll(zero.squeeze(1), log_weights, mean, deviation, y, gap == 0)
        return nll.masked_fill(gap.isnan(), math.nan)

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: rows with an event to predict, that is, with at least two events."""
        return x.lengths > 1

    @staticmethod
    def suggested(x: Sequences) -> Suggestion:
        """Return one slice of each row, of up to twice the median length, as `views`."""
        longest = slice_bounds(x)[1]
        return {"method": {"views": {"name": "random_slices", "count": 1, "shortest": longest, "longest": longest}}}


def _later(x: Sequences) -> Tensor:
    """Return the places, among all events in row order, of those that are not the first of their row."""
    on_host(x.lengths)
    lengths = keep_copy((x.lengths - 1).clamp(min=0), lambda copy: (copy - 1).clamp(min=0), x.lengths)
    return Sequences({}, x.lengths.cumsum(0) - x.lengths + 1, lengths).flat()


def _exact(head: nn.Module, states: Tensor, target: Tensor) -> Tensor:
    """Return `(m,)` negative log likelihoods by a softmax over all classes."""
    return F.cross_entropy(head(states).float(), target, reduction="none")


def _column(x: Sequences, name: str, events: Tensor) -> Tensor:
    column = x.columns[name][events]
    assert isinstance(column, Tensor)
    return column
