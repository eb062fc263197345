"""Networks for pictures of the size of snooker's: three convolutions, ResNet-18 with a small stem, and a decoder."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from eventvec.encoders.heads import Head
from eventvec.errors import ConfigError, DataError

SIDE = 28
"""Height and width of the pictures that `PictureDecoder` returns."""


class Images(nn.Module):
    """An observation network for small images: three strided convolutions with batch norm, and a linear layer.

    It replaces the ResNet18 of Mathieu et al. 2021, Section 5.3, so that training is possible on a CPU.

    Args:
        size: Height and width in pixels.
        channels: Number of colours.
        width: Channels of the first convolution; each of the others doubles them.
        dim: Size of the result.

    Raises:
        ConfigError: If a number is below 1.

    Example:
        >>> Images(size=28, dim=8)(torch.rand(5, 3, 28, 28)).shape
        torch.Size([5, 8])
    """

    def __init__(self, size: int = 28, channels: int = 3, width: int = 16, dim: int = 64) -> None:
        super().__init__()
        if min(size, channels, width, dim) < 1:
            raise ConfigError(
                "size, channels, width and dim must be at least 1, "
                f"got size {size}, channels {channels}, width {width}, dim {dim}"
            )
        self.size, self.channels, self.width, self.dim = size, channels, width, dim
        self.shape: tuple[int, ...] = (channels, size, size)
        sizes = [channels, width, 2 * width, 4 * width]
        blocks = [
            nn.Sequential(nn.Conv2d(i, o, 3, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU())
            for i, o in pairwise(sizes)
        ]
        reduced = -(-size // 8)  # each of the three strides halves the size, rounding up
        self.net = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(4 * width * reduced**2, dim))

    def forward(self, values: Tensor) -> Tensor:
        """Return `(events, dim)` from images `(events, channels, size, size)` with values of order one.

        Raises:
            DataError: If the values have another shape.
        """
        check_pictures(values, self.shape)
        out: Tensor = self.net(values.float())
        return out


def check_pictures(values: Tensor, expected: tuple[int, ...]) -> None:
    """Refuse pictures of another shape than a network takes.

    Raises:
        DataError: If the values have another shape.

    Example:
        >>> check_pictures(torch.rand(5, 3, 8, 8), (3, 8, 8))
    """
    if (shape := tuple(values.shape[1:])) != expected:
        raise DataError(
            f"values have shape {shape}, but this network takes images of shape {expected}; set the options "
            "`channels` and `size` of images"
        )


class ResNet18(nn.Module):
    """ResNet-18 (He et al. 2016) with a small stem, an observation network for small pictures.

    As in the public code of Mathieu et al. 2021, Section 5.3: the stem is one 3 by 3 convolution of stride 1 without
    pooling, four stages of two basic blocks follow, and the result is the mean over all places.

    Relations: `Images` has three convolutions, for training on a CPU.

    Args:
        size: Height and width in pixels.
        channels: Number of colours.
        width: Channels of the first stage; each of the others doubles them, so the result has eight times as many
            numbers: 512 in the paper.

    Raises:
        ConfigError: If a number is below 1.

    Example:
        >>> ResNet18(size=8, width=4)(torch.rand(5, 3, 8, 8)).shape
        torch.Size([5, 32])
    """

    def __init__(self, size: int = SIDE, channels: int = 3, width: int = 64) -> None:
        super().__init__()
        if min(size, channels, width) < 1:
            raise ConfigError(
                f"size, channels and width must be at least 1, got size {size}, channels {channels}, width {width}"
            )
        self.size, self.channels, self.width, self.dim = size, channels, width, 8 * width
        self.shape: tuple[int, ...] = (channels, size, size)
        sizes = [width, width, 2 * width, 4 * width, 8 * width]
        blocks = []
        for stage, (inputs, outputs) in enumerate(pairwise(sizes)):
            blocks += [_Block(inputs, outputs, 1 + (stage > 0)), _Block(outputs, outputs, 1)]
        self.stem = nn.Sequential(nn.Conv2d(channels, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.Sequential(*blocks)

    def forward(self, values: Tensor) -> Tensor:
        """Return `(events, dim)` from pictures `(events, channels, size, size)` with values of order one.

        Raises:
            DataError: If the values have another shape.
        """
        check_pictures(values, self.shape)
        maps: Tensor = self.blocks(self.stem(values.float()))
        return maps.mean((2, 3))


class _Block(nn.Module):
    """A basic block: two 3 by 3 convolutions, and a path around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = (
            nn.Sequential(nn.Conv2d(i, outputs, 3, s, 1, bias=False), nn.BatchNorm2d(outputs))
            for i, s in ((inputs, stride), (outputs, 1))
        )
        same = (inputs, stride) == (outputs, 1)
        around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        self.around = nn.Identity() if same else around

    def forward(self, maps: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(maps))) + self.around(maps))


@dataclass(frozen=True)
class PictureDecoder(Head):
    """A decoder of pictures of 28 by 28 pixels: four transposed convolutions, to sides of 4, 7, 14 and 28.

    The small DCGAN of the public code of Mathieu et al. 2021: batch norm and ReLU between, and a sigmoid of the means.

    Relations: `PlainHead` decodes numbers.

    Args:
        width: Channels of the third layer; the second has twice and the first four times as many.

    Raises:
        ConfigError: If the width is below 1.

    Example:
        >>> decoder = PictureDecoder(width=4).build(context=8, covariate=1, out=2 * 3 * 28 * 28)
        >>> decoder(torch.rand(5, 8), torch.rand(5, 1)).shape
        torch.Size([5, 4704])
    """

    width: int = 64

    def __post_init__(self) -> None:
        if self.width < 1:
            raise ConfigError(f"width must be at least 1, got {self.width}")

    def build(self, context: int, covariate: int, out: int) -> nn.Module:
        """Return a network from `c (n, context)` and `x* (n, covariate)` to `(n, out)`, means and then raw deviations.

        Raises:
            ConfigError: If `out` is not twice the number of values of pictures of 28 by 28 pixels.
        """
        channels, rest = divmod(out, 2 * SIDE * SIDE)
        if rest:
            raise ConfigError(
                f"decoder returns pictures of {SIDE} by {SIDE} pixels, but an observation has the size {out // 2}"
            )
        return _Pictures(context + covariate, self.width, channels)


class _Pictures(nn.Module):
    def __init__(self, inputs: int, width: int, channels: int) -> None:
        super().__init__()
        self.channels = channels
        layers: list[nn.Module] = []
        for i, o, kernel, stride, padding in (
            (inputs, 4 * width, 4, 1, 0), (4 * width, 2 * width, 3, 2, 1), (2 * width, width, 4, 2, 1)
        ):  # fmt: skip
            layers += [nn.ConvTranspose2d(i, o, kernel, stride, padding, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.ConvTranspose2d(width, 2 * channels, 4, 2, 1))

    def forward(self, context: Tensor, place: Tensor) -> Tensor:
        mean, raw = self.net(torch.cat([context, place], 1)[:, :, None, None]).split(self.channels, 1)
        return torch.cat([mean.sigmoid().flatten(1), raw.flatten(1)], 1)
