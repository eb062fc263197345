"""Shaded solids under rotation: generated objects of 13 classes, their renderings and a sampler of distorted views.

They stand in for the renderings of ShapeNet in Mathieu et al. 2021, Section 5.2: a realisation is a solid, a covariate
is a viewpoint with a crop, and an observation is a picture of 28 by 28 pixels, whose colours a noise process distorts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import torch
import torch.nn.functional as F
from torch import Tensor

import eventvec as ev
from eventvec.schema import FIRST, Categorical, Schema
from eventvec.sequences import Sequences

SIDE, VIEWPOINTS = 28, 24
COVARIATES = 12  # numbers of a viewpoint and a crop
HALF_WIDTH = 0.45  # of the picture at distance 1, so that a solid of radius 1 fills it at the least distance
ELEVATION, DISTANCE = (10.0, 50.0), (2.6, 4.0)  # ranges in degrees and in units of length
GREY = (0.299, 0.587, 0.114)  # the weights of the colours in the luminance

Part: TypeAlias = tuple[Tensor, Tensor]
"""A convex part of n solids: outward normals `(n, faces, 3)` and offsets `(n, faces)` of the half-spaces."""


def frustum(sides: int, centre: Tensor, half: Tensor, bottom: Tensor, top: Tensor, taper: Tensor | float = 1.0) -> Part:
    """Return a frustum of n solids with a regular base: a box, prism, pyramid, cylinder of many sides or gable roof.

    Args:
        sides: The number of sides; for 4 the base is a rectangle along the axes.
        centre: `(n, 2)` of the base.
        half: `(n, 2)` the inner radius of the base along the two axes.
        bottom: `(n,)` the lowest height.
        top: `(n,)` the greatest height.
        taper: The size of the upper base relative to the lower one, `(2,)` along the two axes or one number.
    """
    angle = torch.arange(sides) * (2 * math.pi / sides)
    x, y = angle.cos(), angle.sin()
    taper = torch.as_tensor(taper).expand(2)
    shrinkage = (1 - taper[0] * x.square() - taper[1] * y.square()) / (top - bottom)[:, None]  # (n, sides)
    normals = torch.stack([x / half[:, :1], y / half[:, 1:], shrinkage], 2)
    offsets = 1 + shrinkage * bottom[:, None] + (normals[:, :, :2] * centre[:, None]).sum(2)
    length = normals.norm(dim=2)
    up = torch.tensor([0.0, 0.0, 1.0]).expand(len(half), 1, 3)
    return (
        torch.cat([normals / length[:, :, None], up, -up], 1),
        torch.cat([offsets / length, top[:, None], -bottom[:, None]], 1),
    )


def box(lower: Sequence[Tensor], upper: Sequence[Tensor]) -> Part:
    """Return a box of n solids from its lowest and highest coordinates, `(n,)` each."""
    low, high = torch.stack(list(lower), 1), torch.stack(list(upper), 1)
    return frustum(4, (low + high)[:, :2] / 2, (high - low)[:, :2] / 2, low[:, 2], high[:, 2])


def _block(u: Tensor) -> list[Part]:
    return [_upright(4, u)]


def _cylinder(u: Tensor) -> list[Part]:
    return [_upright(12, u)]


def _hexagonal(u: Tensor) -> list[Part]:
    return [_upright(6, u)]


def _pyramid(u: Tensor) -> list[Part]:
    return [_upright(4, u, taper=0.02)]


def _cone(u: Tensor) -> list[Part]:
    return [_upright(12, u, taper=0.02)]


def _house(u: Tensor) -> list[Part]:
    half, height = 0.4 + 0.3 * u[:, :2], 0.3 + 0.4 * u[:, 2]
    eaves = height * (0.4 * u[:, 3] - 0.3)
    roof = frustum(4, torch.zeros_like(half), half, eaves, height, torch.tensor([1.0, 0.02]))
    return [frustum(4, torch.zeros_like(half), half, -height, eaves), roof]


def _table(u: Tensor) -> list[Part]:
    x, y, height = 0.4 + 0.35 * u[:, 0], 0.4 + 0.35 * u[:, 1], 0.3 + 0.4 * u[:, 2]
    plate = box((-x, -y, height - 0.1 - 0.1 * u[:, 3]), (x, y, height))
    return [plate, *_legs(x, y, -height, height - 0.1, 0.07 + 0.1 * u[:, 4])]


def _chair(u: Tensor) -> list[Part]:
    x, y, height = 0.3 + 0.25 * u[:, 0], 0.3 + 0.25 * u[:, 1], 0.5 + 0.3 * u[:, 2]
    seat, width = height * (0.4 * u[:, 3] - 0.3), 0.1 + 0.08 * u[:, 4]
    plate, back = box((-x, -y, seat - 0.12), (x, y, seat)), box((-x, -y, seat), (width - x, y, height))
    return [plate, back, *_legs(x, y, -height, seat - 0.1, width)]


def _l_shape(u: Tensor) -> list[Part]:
    x, y, height, width, seat = _profile(u)
    return [box((-x, -y, -height), (x, y, seat)), box((-x, -y, seat), (width - x, y, height))]


def _t_shape(u: Tensor) -> list[Part]:
    x, y, height, width, seat = _profile(u)
    return [box((-x, -y, -seat), (x, y, height)), box((-width / 2, -y, -height), (width / 2, y, -seat))]


def _u_shape(u: Tensor) -> list[Part]:
    x, y, height, width, seat = _profile(u)
    walls = [box((low, -y, seat), (low + width, y, height)) for low in (-x, x - width)]
    return [box((-x, -y, -height), (x, y, seat)), *walls]


def _cross(u: Tensor) -> list[Part]:
    x, _, height, width, _ = _profile(u)
    length = 0.45 + 0.25 * u[:, 1]
    bars = box((-x, -width / 2, -height), (x, width / 2, height))
    return [bars, box((-width / 2, -length, -height), (width / 2, length, height))]


def _lamp(u: Tensor) -> list[Part]:
    origin, height = torch.zeros_like(u[:, :2]), 0.5 + 0.35 * u[:, 0]
    foot, pole, shade = (low + 0.25 * u[:, i, None].expand(-1, 2) for i, low in ((1, 0.2), (2, 0.05), (3, 0.3)))
    lower = height * (0.5 * u[:, 4] - 0.1)
    return [
        frustum(12, origin, foot, -height, 0.12 - height), frustum(12, origin, pole / 2, -height, lower),
        frustum(12, origin, shade, lower, height, 0.5),
    ]  # fmt: skip


def _upright(sides: int, u: Tensor, taper: float = 1.0) -> Part:
    half, height = 0.35 + 0.35 * u[:, :2], 0.3 + 0.4 * u[:, 2]
    return frustum(sides, torch.zeros_like(half), half, -height, height, taper)


def _legs(x: Tensor, y: Tensor, bottom: Tensor, top: Tensor, width: Tensor) -> list[Part]:
    corners = [(a, b) for a in (-x, x - width) for b in (-y, y - width)]
    return [box((a, b, bottom), (a + width, b + width, top)) for a, b in corners]


def _profile(u: Tensor) -> tuple[Tensor, ...]:
    x, y, height = 0.45 + 0.25 * u[:, 0], 0.25 + 0.35 * u[:, 1], 0.35 + 0.35 * u[:, 2]
    return x, y, height, x * (0.3 + 0.4 * u[:, 3]), height * (0.6 * u[:, 4] - 0.5)


CLASSES: dict[str, Callable[[Tensor], list[Part]]] = {
    "block": _block, "cylinder": _cylinder, "hexagonal prism": _hexagonal, "pyramid": _pyramid, "cone": _cone,
    "house": _house, "table": _table, "chair": _chair, "l": _l_shape, "t": _t_shape, "u": _u_shape, "cross": _cross,
    "lamp": _lamp,
}  # fmt: skip
"""The parts of n solids from random proportions `(n, 5)` in [0, 1)."""


def render(parts: Sequence[Part], viewpoints: Tensor, colour: Tensor, side: int = SIDE) -> Tensor:
    """Return `(n, v, 3, side, side)` pictures, values in [0, 1], of n solids from v viewpoints each, on white.

    A ray enters a convex part at the last of the faces that it enters and leaves at the first of those that it leaves;
    it shows the part that it enters first. Faces are shaded by Lambert's law, with a light that moves with the camera.

    Args:
        parts: The convex parts of the solids.
        viewpoints: `(n, v, 3)` azimuth and elevation in radians, and distance.
        colour: `(n, 3)` of each solid.
        side: Height and width in pixels.
    """
    azimuth, elevation, distance = viewpoints.unbind(2)
    zeros = torch.zeros_like(azimuth)
    toward = _vector(elevation.cos() * azimuth.cos(), elevation.cos() * azimuth.sin(), elevation.sin())
    right = _vector(-azimuth.sin(), azimuth.cos(), zeros)
    up = _vector(-elevation.sin() * azimuth.cos(), -elevation.sin() * azimuth.sin(), elevation.cos())
    light = F.normalize(toward + 1.2 * up - 0.7 * right, dim=2)
    grid = HALF_WIDTH * (torch.arange(side) * 2 + 1 - side) / side
    across, down = grid.repeat(side), -grid.repeat_interleave(side)  # (pixels,) in the picture's plane
    nearest = torch.full((*azimuth.shape, side * side), math.inf)
    brightness = torch.zeros_like(nearest)
    for normals, offsets in parts:
        entry, leaving, shade = torch.zeros_like(nearest), torch.full_like(nearest, math.inf), torch.zeros_like(nearest)
        for normal, offset in zip(normals.unbind(1), offsets.unbind(1), strict=True):
            along = [torch.einsum("nc,nvc->nv", normal, axis)[:, :, None] for axis in (toward, right, up, light)]
            slope = along[1] * across + along[2] * down - along[0]  # the ray's direction is -toward + ...
            slope = torch.where(slope.abs() < 1e-6, -1e-6, slope)
            depth = (offset[:, None, None] - distance[:, :, None] * along[0]) / slope
            enters = slope < 0
            leaving = torch.where(enters, leaving, torch.minimum(leaving, depth))
            later = enters & (depth > entry)
            entry = torch.where(later, depth, entry)
            shade = torch.where(later, 0.3 + 0.7 * along[3].clamp(min=0), shade)
        visible = (entry < leaving) & (entry < nearest) & (entry > 0)
        nearest, brightness = torch.where(visible, entry, nearest), torch.where(visible, shade, brightness)
    shaded = brightness[:, :, None] * colour[:, None, :, None]
    pictures: Tensor = torch.where(nearest[:, :, None].isfinite(), shaded, 1.0).unflatten(3, (side, side))
    return pictures


def solids(per_class: int, seed: int = 0) -> ev.Dataset:
    """Return solids in random order, each with 24 pictures from random viewpoints, rendered once.

    The columns are `x (24 n, 8)`, the covariate, and `y (24 n, 3, 28, 28)`, pictures of bytes. The covariate is made of
    sine and cosine of the single, double and triple azimuth, elevation and distance, the last two standardised.

    Args:
        per_class: The number of solids of each class.
        seed: Seed of proportions, colours, viewpoints and order.
    """
    rng = torch.Generator().manual_seed(seed)
    pictures, viewpoints = [], []
    for make in CLASSES.values():
        for start in range(0, per_class, 16):  # so that a part of the rays fits into the cache
            n = min(16, per_class - start)
            proportions, colour = torch.rand(n, 5, generator=rng), 0.15 + 0.85 * torch.rand(n, 3, generator=rng)
            viewpoints.append(_viewpoints(n, rng))
            pictures.append((255 * render(make(proportions), viewpoints[-1], colour)).round().byte())
    label = FIRST + torch.arange(len(CLASSES)).repeat_interleave(per_class)
    n, order = len(label), torch.randperm(len(label), generator=rng)
    columns = {
        "x": covariates(torch.cat(viewpoints)[order].flatten(0, 1)),
        "y": torch.cat(pictures)[order].flatten(0, 1),
    }
    lengths = torch.full((n,), VIEWPOINTS)
    x = Sequences(columns, lengths.cumsum(0) - lengths, lengths, {"class": label[order]})
    return as_dataset(x)


def as_dataset(x: Sequences) -> ev.Dataset:
    """Return solids as a data set, with keys from 0."""
    schema = Schema("solid", "x", "float", static=(Categorical("class", tuple(CLASSES)),))
    return ev.Dataset(pa.array(range(len(x)), pa.int64()), x, schema)


def covariates(viewpoints: Tensor) -> Tensor:
    """Return `(events, 8)` covariates of viewpoints `(events, 3)`."""
    azimuth, elevation, distance = viewpoints.unbind(1)
    angles = azimuth[:, None] * torch.arange(1, 4)
    scaled = [
        ((value - (low + high) / 2) / ((high - low) / math.sqrt(12)))[:, None]
        for value, (low, high) in ((elevation.rad2deg(), ELEVATION), (distance, DISTANCE))
    ]
    return torch.cat([angles.sin(), angles.cos(), *scaled], 1)


def _viewpoints(n: int, rng: torch.Generator) -> Tensor:
    """Return `(n, 24, 3)` azimuth, elevation and distance, uniform in their ranges."""
    low, high = torch.tensor([(0.0, 2 * math.pi), tuple(map(math.radians, ELEVATION)), DISTANCE]).T
    return torch.lerp(low, high, torch.rand(n, VIEWPOINTS, 3, generator=rng))


def _vector(*coordinates: Tensor) -> Tensor:
    return torch.stack(coordinates, 2)


@dataclass(frozen=True)
class SolidViews:
    """Cropped and distorted pictures of solids from random viewpoints; all views of a solid have different ones.

    Args:
        count: Views per row.
        length: Events per view.
        strength: Strength of the distortion of colours, at least 0.
        area: The smallest share of a picture that is cropped, .08 in the public code; 1 for no crop. The crop is drawn
            anew and is part of the covariate.
    """

    count: int = 2
    length: int = 3
    strength: float = 1.0
    area: float = 0.25

    def usable(self, x: Sequences) -> Tensor:
        """Return `(n,)` bool: true for rows with enough pictures."""
        return x.lengths >= self.count * self.length

    def __call__(self, batch: Sequences, rng: torch.Generator) -> tuple[Sequences, Tensor]:
        """Return `(views, source)`, `count` views of each row, row after row."""
        source = torch.arange(len(batch), device=batch.device).repeat_interleave(self.count)
        order = torch.rand(len(batch), batch.longest, generator=rng, device=batch.device)
        order = order.masked_fill(~batch.mask(), 2).argsort(1)[:, : self.count * self.length]
        index = (batch.starts[:, None] + order).flatten()
        views = batch[source].take(index, torch.full_like(source, self.length))
        places = crops(views.total, self.area, rng)
        y = distort(crop(views.values("y").float() / 255, places), self.strength, rng)
        side = places[:, 2:]
        about = [3 * places[:, :2], (side - 0.78) / 0.14, (side.square() - 0.625) / 0.22]  # all of order one
        columns = {"x": torch.cat([views.values("x"), *about], 1), "y": y}
        return Sequences(columns, views.starts, views.lengths, views.static), source


def crops(n: int, area: float, rng: torch.Generator) -> Tensor:
    """Return `(n, 3)` random squares: centre, from -1 to 1 across the picture, and side relative to the picture's."""
    u = torch.rand(n, 3, generator=rng, device=rng.device)
    side = (area + (1 - area) * u[:, 2:]).sqrt()
    return torch.cat([(2 * u[:, :2] - 1) * (1 - side), side], 1)


def crop(pictures: Tensor, places: Tensor) -> Tensor:
    """Return `(n, c, h, w)` crops of pictures, enlarged to their size; the whole picture is returned as it is."""
    if bool((places[:, 2] == 1).all()):
        return pictures
    x, y, side = places.unbind(1)
    zeros = torch.zeros_like(side)
    theta = torch.stack([side, zeros, x, zeros, side, y], 1).view(-1, 2, 3)
    grid = F.affine_grid(theta, list(pictures.shape), align_corners=False)
    enlarged: Tensor = F.grid_sample(pictures, grid, padding_mode="border", align_corners=False)
    return enlarged


def distort(pictures: Tensor, strength: float, rng: torch.Generator) -> Tensor:
    """Return `(n, 3, h, w)` pictures in [0, 1] with distorted colours; strength 0 changes nothing.

    As in the public code of Mathieu et al. 2021: with probability .8 brightness, contrast and saturation are multiplied
    by factors in 1 ± .8 s, and the hue is turned by up to ± .2 s of the circle; with probability .2 a picture becomes
    grey; then comes a gamma between 1 - g and g, with g = min(.8 s, 1). The order of the four is fixed, and the hue is
    turned around the axis of greys.
    """
    if strength == 0:
        return pictures
    n = len(pictures)
    u = torch.rand(7, n, generator=rng, device=pictures.device)
    jitter = (u[0] < 0.8).float()
    least = max(0.0, 1 - 0.8 * strength)
    brightness, contrast, saturation = 1 + jitter * (least - 1 + (1 + 0.8 * strength - least) * u[1:4])
    turn = jitter * 2 * math.pi * 0.2 * strength * (2 * u[4] - 1)
    gamma = 1 - (g := min(0.8 * strength, 1.0)) + (2 * g - 1) * u[6]
    values = (pictures * _each(brightness)).clamp(0, 1)
    mean = torch.einsum("nchw,c->nhw", values, values.new_tensor(GREY)).mean((1, 2))
    values = torch.lerp(_each(mean), values, _each(contrast)).clamp(0, 1)
    grey = (u[5] < 0.2)[:, None, None]
    luminance = pictures.new_tensor(GREY).expand(n, 3, 3)
    matrix = torch.where(grey, luminance, _hue_and_saturation(turn, saturation))
    return torch.einsum("nkc,nchw->nkhw", matrix, values).clamp(0, 1) ** _each(gamma)


def _hue_and_saturation(turn: Tensor, saturation: Tensor) -> Tensor:
    """Return `(n, 3, 3)` matrices that scale colours about their luminance and turn them around the axis of greys."""
    one = torch.eye(3, device=turn.device)
    axis = torch.full((3, 3), 1 / 3, device=turn.device)
    across = torch.tensor([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]], device=turn.device) / math.sqrt(3)
    cosine, sine, factor = (value[:, None, None] for value in (turn.cos(), turn.sin(), saturation))
    rotation = cosine * one + sine * across + (1 - cosine) * axis
    return rotation @ (factor * one + (1 - factor) * turn.new_tensor(GREY).expand(3, 3))


def _each(values: Tensor) -> Tensor:
    return values[:, None, None, None]
