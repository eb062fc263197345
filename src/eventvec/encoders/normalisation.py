"""Batch normalisation inside encoders: by the whole batch, also where several processes have shares of it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec import distributed


class BatchNorm1d(nn.BatchNorm1d):
    """Batch normalisation of columns `(n, channels)` by the statistics of all processes; by running ones of one row."""

    def forward(self, values: Tensor) -> Tensor:
        """Return the normalised values, `(n, channels)`."""
        if self.training and distributed.in_share():
            return self._shared(values)
        return self._alone(values, self.training and len(values) > 1)

    def _alone(self, values: Tensor, by_batch: bool) -> Tensor:
        return F.batch_norm(
            values, self.running_mean, self.running_var, self.weight, self.bias, by_batch, self.momentum or 0.1,
            self.eps,
        )  # fmt: skip

    def _shared(self, values: Tensor) -> Tensor:
        assert self.running_mean is not None
        assert self.running_var is not None
        numbers = values.to(self.weight.dtype)
        own_count = numbers.new_full((1,), len(values))
        count, sums = distributed.all_reduce(torch.cat([own_count, numbers.sum(0)])).split([1, values.shape[1]])
        count = count.detach()
        if float(count) < 2:
            return self._alone(values, False)
        mean = sums / count
        centred = numbers - mean
        variance = distributed.all_reduce(centred.square().sum(0)) / count
        with torch.no_grad():
            step = self.momentum or 0.1
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), step)
            self.running_var.lerp_((variance * count / (count - 1)).to(self.running_var.dtype), step)
        scaled: Tensor = centred * (self.weight * (variance + self.eps).rsqrt()) + self.bias
        return scaled.to(values.dtype)
