"""Batch normalisation inside encoders: by the whole batch, also where several processes have shares of it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec import distributed


class _OfWholeBatch(nn.modules.batchnorm._BatchNorm):
    """Batch normalisation by the statistics of all processes; a single value is normalised by running statistics."""

    def forward(self, values: Tensor) -> Tensor:
        """Return the normalised values, `(n, channels, ...)` as they were given."""
        if self.training and distributed.in_share():
            return self._shared(values)
        return self._alone(values, self.training and values.numel() > values.shape[1])

    def _alone(self, values: Tensor, by_batch: bool) -> Tensor:
        return F.batch_norm(
            values, self.running_mean, self.running_var, self.weight, self.bias, by_batch, self.momentum or 0.1,
            self.eps,
        )  # fmt: skip

    def _shared(self, values: Tensor) -> Tensor:
        assert self.running_mean is not None
        assert self.running_var is not None
        others = [place for place in range(values.dim()) if place != 1]
        shape = [-1, *[1] * (values.dim() - 2)]
        numbers = values.to(self.weight.dtype)
        own_count = numbers.new_full((1,), values.numel() // values.shape[1])
        count, sums = distributed.all_reduce(torch.cat([own_count, numbers.sum(others)])).split([1, values.shape[1]])
        count = count.detach()
        if float(count) < 2:
            return self._alone(values, False)
        mean = sums / count
        centred = numbers - mean.view(shape)
        variance = distributed.all_reduce(centred.square().sum(others)) / count
        with torch.no_grad():
            step = self.momentum or 0.1
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), step)
            self.running_var.lerp_((variance * count / (count - 1)).to(self.running_var.dtype), step)
        scaled: Tensor = centred * (self.weight * (variance + self.eps).rsqrt()).view(shape) + self.bias.view(shape)
        return scaled.to(values.dtype)


class BatchNorm1d(_OfWholeBatch, nn.BatchNorm1d):
    """Normalises the columns of `(n, channels)`."""
