"""Renderings of solids equal a slow loop over pixels; distortion and views do what they say."""

from __future__ import annotations

import math

import pytest
import torch
from experiments.cresp.solids import (
    CLASSES,
    ELEVATION,
    HALF_WIDTH,
    VIEWPOINTS,
    SolidViews,
    box,
    covariates,
    crop,
    crops,
    distort,
    frustum,
    render,
    solids,
)
from torch import Tensor

RED = torch.tensor([[1.0, 0.2, 0.1]])


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def viewpoint(azimuth: float, elevation: float, distance: float = 3.0) -> Tensor:
    return torch.tensor([[[math.radians(azimuth), math.radians(elevation), distance]]])


def cube(half: float = 0.5) -> tuple[Tensor, Tensor]:
    edge = torch.full((1,), half)
    return box((-edge, -edge, -edge), (edge, edge, edge))


def slow_picture(azimuth: float, elevation: float, half: float, side: int, distance: float = 3.0) -> Tensor:
    """A cube by marching along each pixel's ray in small steps; the face is the coordinate that reaches the surface."""
    a, e = math.radians(azimuth), math.radians(elevation)
    toward = [math.cos(e) * math.cos(a), math.cos(e) * math.sin(a), math.sin(e)]
    right, up = [-math.sin(a), math.cos(a), 0.0], [-math.sin(e) * math.cos(a), -math.sin(e) * math.sin(a), math.cos(e)]
    light = [t + 1.2 * u - 0.7 * r for t, u, r in zip(toward, up, right, strict=True)]
    norm = math.sqrt(sum(value**2 for value in light))
    picture = torch.ones(3, side, side)
    for i in range(side):
        for j in range(side):
            u, v = HALF_WIDTH * (2 * j + 1 - side) / side, -HALF_WIDTH * (2 * i + 1 - side) / side
            for step in range(2000):
                depth = 1.5 + step * 0.0015
                place = [distance * t + depth * (u * r + v * w - t) for t, r, w in zip(toward, right, up, strict=True)]
                if max(map(abs, place)) < half:
                    face = max(range(3), key=lambda axis: abs(place[axis]))
                    cosine = math.copysign(1, place[face]) * light[face] / norm
                    picture[:, i, j] = RED[0] * (0.3 + 0.7 * max(cosine, 0))
                    break
    return picture


@pytest.mark.parametrize(("azimuth", "elevation"), [(0.0, 0.0), (45.0, 35.0), (200.0, 20.0)])
def test_a_cube_looks_as_in_a_slow_loop_over_pixels(azimuth: float, elevation: float) -> None:
    picture = render([cube()], viewpoint(azimuth, elevation), RED, side=12)[0, 0]
    slow = slow_picture(azimuth, elevation, 0.5, side=12)
    same = (picture - slow).abs().amax(0) < 1e-4
    assert same.float().mean() >= 0.97  # a step may miss a corner, or come out on the other side of an edge
    assert 0.1 < (picture[1] < 1).float().mean() < 0.9


def test_a_face_seen_from_the_front_is_a_square_of_one_brightness() -> None:
    picture = render([cube(0.5)], viewpoint(0, 0), RED, side=28)[0, 0]
    inside = picture[1] < 1
    width = round(28 * 0.5 / 2.5 / HALF_WIDTH)  # the front face is at depth 3 - 0.5
    assert inside.any(0).sum() == inside.any(1).sum() == width
    assert inside.sum() == width**2
    assert len(picture[:, inside].unique(dim=1).T) == 1


def test_the_nearer_part_hides_the_other() -> None:
    one, edge = torch.ones(1), torch.full((1,), 0.2)
    near = frustum(4, torch.tensor([[0.7, 0.0]]), torch.full((1, 2), 0.2), -edge, edge, 0.3)
    far = box((-one * 0.3, -one, -one), (-edge, one, one))
    both, swapped = (render(parts, viewpoint(0, 0), RED) for parts in ([near, far], [far, near]))
    assert torch.equal(both, swapped)
    alone, behind = render([near], viewpoint(0, 0), RED), render([far], viewpoint(0, 0), RED)
    covered = alone[:, :, 1] < 1
    assert torch.equal(both[:, :, 0][covered], alone[:, :, 0][covered])
    assert (alone[:, :, 0][covered] != behind[:, :, 0][covered]).all()  # faces of different slopes
    assert torch.equal(both[:, :, 0][~covered], behind[:, :, 0][~covered])


def test_a_gable_roof_is_a_triangle_from_one_side_and_a_rectangle_from_the_other() -> None:
    low, high = torch.full((1,), -0.3), torch.full((1,), 0.5)
    roof = frustum(4, torch.zeros(1, 2), torch.full((1, 2), 0.5), low, high, torch.tensor([1.0, 0.02]))
    widths = [(render([roof], viewpoint(azimuth, 0), RED)[0, 0, 1] < 1).sum(1) for azimuth in (0, 90)]
    gable, eaves = (width[width > 0] for width in widths)  # from top to bottom
    assert gable[0] <= 2
    assert gable[-1] >= 10
    assert bool((gable.diff() >= 0).all())
    assert eaves.max() - eaves.min() <= 2  # the ridge is farther away than the eaves


@pytest.mark.parametrize(("sides", "turn"), [(4, 90.0), (12, 30.0), (6, 60.0)])
def test_a_symmetric_solid_looks_the_same_after_a_turn(sides: int, turn: float) -> None:
    half, top = torch.full((1, 2), 0.5), torch.full((1,), 0.6)
    for taper in (1.0, 0.3):
        part = frustum(sides, torch.zeros(1, 2), half, -top, top, taper)
        before, after = (render([part], viewpoint(17 + angle, 25), RED) for angle in (0.0, turn))
        assert ((before - after).abs() < 1e-4).float().mean() > 0.99  # but for rounding at the edges
        other = render([part], viewpoint(17 + turn / 2, 25), RED)
        assert ((before - other).abs() > 1e-3).any()


def test_nearer_objects_are_larger() -> None:
    areas = [(render([cube(0.4)], viewpoint(30, 30, d), RED)[0, 0, 1] < 1).float().mean() for d in (2.6, 4.0)]
    assert areas[0] > 1.8 * areas[1]


def test_every_class_fits_into_the_picture_from_the_middle_distance() -> None:
    proportions = torch.rand(20, 5, generator=rng())
    viewpoints = torch.tensor([math.radians(40), math.radians(sum(ELEVATION) / 2), 3.3]).expand(20, 1, 3)
    for make in CLASSES.values():
        pictures = render(make(proportions), viewpoints, RED.expand(20, 3))
        frame = torch.cat([pictures[..., 0, :], pictures[..., -1, :], pictures[..., 0], pictures[..., -1]], -1)
        assert bool((frame == 1).all())
        assert bool(((pictures[:, :, 1] < 1).float().mean((1, 2, 3)) > 0.01).all())


def test_distortion_of_strength_zero_is_the_identity_and_others_are_not() -> None:
    pictures = torch.rand(50, 3, 6, 6, generator=rng())
    assert torch.equal(distort(pictures, 0.0, rng()), pictures)
    for strength in (0.5, 1.0, 1.5):
        distorted = distort(pictures, strength, rng())
        assert 0 <= distorted.min() <= distorted.max() <= 1
        assert ((distorted - pictures).abs().amax((1, 2, 3)) > 1e-3).float().mean() >= 0.9  # a gamma may be near 1


def test_a_fifth_of_the_pictures_has_equal_channels() -> None:
    pictures = torch.rand(4000, 3, 4, 4, generator=rng(1))
    distorted = distort(pictures, 1.0, rng())
    grey = (distorted.amax(1) - distorted.amin(1)).amax((1, 2)) < 1e-5
    assert 0.17 < grey.float().mean() < 0.23


def test_distortion_is_drawn_for_each_picture() -> None:
    pictures = torch.rand(1, 3, 5, 5, generator=rng()).repeat(30, 1, 1, 1)
    distorted = distort(pictures, 1.0, rng()).flatten(1)
    assert len(distorted.unique(dim=0)) == 30


def test_grey_pictures_stay_grey() -> None:
    pictures = torch.rand(200, 1, 4, 4, generator=rng()).expand(200, 3, 4, 4)
    distorted = distort(pictures, 1.0, rng())
    assert ((distorted.amax(1) - distorted.amin(1)) < 1e-4).all()


def test_solids_have_all_classes_and_covariates_on_circles() -> None:
    x = solids(2, seed=3).sequences
    label = x.static["class"]
    assert isinstance(label, Tensor)
    assert label.bincount().tolist() == [0, 0, *[2] * len(CLASSES)]
    covariate = x.values("x")
    assert covariate.shape == (2 * len(CLASSES) * VIEWPOINTS, 8)
    squares = covariate[:, :3].square() + covariate[:, 3:6].square()
    torch.testing.assert_close(squares, torch.ones_like(squares))
    assert covariate[:, 6:].abs().max() < 1.8
    assert torch.equal(x.values("y"), solids(2, seed=3).sequences.values("y"))


def test_covariates_of_a_viewpoint() -> None:
    middle = torch.tensor([[math.pi / 2, math.radians(30), 3.3]])
    torch.testing.assert_close(covariates(middle), torch.tensor([[1.0, 0, -1, 0, -1, 0, 0, 0]]), atol=1e-5, rtol=0)


def test_views_have_different_pictures_with_their_covariates() -> None:
    x = solids(1, seed=1).sequences
    rows = torch.tensor([5, 0, 3])
    views, source = SolidViews(count=2, length=4, strength=0.0, area=1.0)(x[rows], rng())
    assert source.tolist() == [0, 0, 1, 1, 2, 2]
    for i in range(len(rows)):
        stored = x[rows[i : i + 1]]
        drawn = views[torch.tensor([2 * i, 2 * i + 1])]
        differences = (drawn.values("x")[:, None, :8] - stored.values("x")).abs().sum(2)
        place = differences.argmin(1)
        assert differences.amin(1).max() == 0
        assert len(place.unique()) == 8
        assert torch.equal(drawn.values("y"), stored.values("y")[place].float() / 255)


def test_a_crop_is_the_part_of_the_picture_that_its_numbers_name() -> None:
    pictures = torch.rand(2, 3, 8, 8, generator=rng())
    quarter = crop(pictures, torch.tensor([[-0.5, 0.5, 0.5], [0.5, -0.5, 0.5]]))  # centre: across, down
    half_size = torch.nn.functional.avg_pool2d(quarter, 2)
    slow = torch.stack([pictures[0, :, 4:, :4], pictures[1, :, :4, 4:]])
    inner = (slice(None), slice(None), slice(1, -1), slice(1, -1))
    kernel = torch.tensor([1.0, 6, 1]) / 8  # two samples of linear interpolation, a quarter of a pixel from its centre
    smooth = torch.nn.functional.conv2d(slow.flatten(0, 1)[:, None], torch.outer(kernel, kernel)[None, None])
    torch.testing.assert_close(half_size[inner].flatten(0, 1), smooth[:, 0])
    places = crops(1000, 0.25, rng())
    assert (places[:, 2] >= 0.5).all()
    assert (places[:, :2].abs() + places[:, 2:] <= 1 + 1e-6).all()


def test_rows_with_too_few_pictures_are_not_usable() -> None:
    x = solids(1).sequences
    assert SolidViews(2, 12).usable(x).all()
    assert not SolidViews(2, 13).usable(x).any()
