"""How often a training step waits for a device, counted on a CPU that pretends to be one, and on a GPU by torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

import cases
import make
from eventvec.methods import METHODS, CoLES, ocp
from eventvec.methods.declarations import usable_rows
from eventvec.sequences import Sequences, on_host
from eventvec.training.fit_options import FitOptions
from eventvec.training.optimizer import OptimizerName, optimizer
from eventvec.training.state import Training
from eventvec.training.validation import Split
from eventvec.views import (
    Altered,
    CappedSamples,
    Counterfeits,
    DisjointSamples,
    DisjointSegments,
    EntityPairs,
    NextPairs,
    OrderPairs,
    Perturbed,
    RandomSamples,
    RandomSlices,
    RejectionSlices,
    ShuffledParts,
    TimeWindows,
)
from pretended import DEVICE, Generator, Pretended

WAITS = {
    **dict.fromkeys(("rtd", "supervised"), 0),
    **dict.fromkeys(
        (
            "coles",
            "coles_paper",
            "cross_order",
            "ocp",
            "ocp_biased",
            "pcl",
            "sop",
            "nsp",
            "cpc",
            "expclr",
            "expert_triplets",
        ),
        1,
    ),
    **dict.fromkeys(("cresp", "cresp_untargeted", "fclr", "cnp", "acnp", "acnp_cross", "metacde", "next_event"), 1),
    **dict.fromkeys(("entity_contrastive", "siamese", "ts2vec"), 1),
    "tpp_embedding": 2,  # the bytes of the descriptions, which the CPU decodes; the sizes of the histories
    "masked_language": 3,  # the sizes of the texts, then their bytes, which the CPU decodes; how many tokens are hidden
}
"""Waits for views, encoding and loss, beside that for the value of the loss."""


def known(x: Sequences) -> Sequences:
    """Return rows whose lengths the host knows, as `Sequences.to` moves them to a device once in a run."""
    for rows in (x, *x.columns.values(), *x.static.values()):
        if isinstance(rows, Sequences):
            on_host(rows.lengths)
    return x


def test_every_method_has_its_row() -> None:
    assert set(WAITS) == set(METHODS)


@pytest.mark.parametrize("name", WAITS)
def test_views_encoding_and_loss_wait_for_the_device_as_often_as_said(name: str) -> None:
    method, x = cases.CASES[name]()
    x = x[torch.arange(len(x)).repeat(3)]
    x, rng = x[usable_rows(method, x)], Generator().manual_seed(0)
    with Pretended() as device:
        known(x)
        device.waits.clear()
        loss = method(x[torch.arange(len(x))], rng)  # rows that the host has chosen
        loss.backward()
        assert device.waits.total() == WAITS[name], device.waits
        float(loss.detach())
        assert device.waits.total() == WAITS[name] + 1


@pytest.mark.parametrize("name", ["adam", "adamw", "lars"])
def test_a_training_step_waits_for_views_and_for_the_value_of_the_loss_only(name: OptimizerName) -> None:
    method, x = cases.coles()
    x = x[usable_rows(method, x)]
    options = FitOptions(
        epochs=1, batch_size=2, clip=1.0, optimizer=name, warmup=2, encoder_lr=0.01, precision="float32"
    )
    rows = Split(torch.arange(len(x)), torch.arange(0), None)
    with Pretended() as device:
        known(x)
        state = Training(method, optimizer(method, 0.01, 0.001, name), Generator().manual_seed(0), options, rows)
        state.begin()
        device.waits.clear()
        for batch in state.batches():
            state.step(x[batch])
    assert state.steps > 1
    assert device.waits.total() == 2 * state.steps, device.waits


SAMPLERS: dict[int, list[Callable[[Sequences, torch.Generator], tuple[Sequences, Tensor]]]] = {
    0: [Perturbed(make.schema(), pieces=3), Counterfeits(2)],
    1: [
        RandomSlices(3, 3, 5), RejectionSlices(6, 2, 5), DisjointSegments(3), RandomSamples(3, 3, 5),
        CappedSamples(3, 3, 5), DisjointSamples(3), ShuffledParts(3), Altered(RandomSlices(3, 3, 5), 0.3, shuffle=True),
        Counterfeits(2, "gaps"), EntityPairs(2), OrderPairs(2), NextPairs(RandomSlices(2, 4, 5)),
    ],
    2: [EntityPairs(count=3), OrderPairs(count=3), TimeWindows(5e14, count=2, shortest=2)],
}  # fmt: skip
"""Samplers by how often they wait, the sizes of their views included.

Several pairs of a row, and windows of time, wait for their number first, because random numbers are drawn for each.
Not here are windows `within` a category, which wait seven times.
"""


@pytest.mark.parametrize(("count", "sampler"), [(n, sampler) for n, several in SAMPLERS.items() for sampler in several])
def test_samplers_wait_for_the_device_as_often_as_said(
    count: int, sampler: Callable[[Sequences, torch.Generator], tuple[Sequences, Tensor]]
) -> None:
    x = make.sequences([9, 12, 7, 20, 8, 15])
    with Pretended() as device:
        on_host(x.lengths)
        device.waits.clear()
        views, _ = sampler(x[torch.arange(len(x))], Generator().manual_seed(0))
        views.flat(), views.pad(views.values("time"))
        assert device.waits.total() == count, device.waits


def test_the_pretended_device_notices_what_waits() -> None:
    x = Sequences({"time": torch.arange(9)}, torch.tensor([0, 4]), torch.tensor([4, 5]))
    with Pretended() as device:
        assert x.device == DEVICE
        time = x.values("time")  # one wait, for its size
        assert device.waits.total() == 1
        x.rows(), x.steps(), x.longest, x.total, time.sum(), time[time.argsort()], torch.arange(3, device=x.device)
        assert device.waits.total() == 1
        waiting = [
            lambda: time.nonzero(), lambda: time[time > 3], lambda: bool((time > 3).any()), lambda: time.cpu(),
            lambda: time.max().item(), lambda: time.tolist(), lambda: time.unique(), lambda: time.bincount(),
            lambda: torch.tensor([1, 2], device=x.device), lambda: torch.arange(3).to(x.device),
            lambda: time.repeat_interleave(time), lambda: time.new_tensor([1]), lambda: time[[0, 1]],
            lambda: time[np.array([0, 1])], lambda: time[torch.arange(2)], lambda: time.clone().copy_(torch.arange(9)),
            lambda: time.clone().__setitem__(slice(9), torch.arange(9)), lambda: torch.arange(2).to(time),
            lambda: torch.tensor([time[0], time[1]]), lambda: np.asarray(time), lambda: str(time), lambda: f"{time[0]}",
            lambda: time[: time[0]], lambda: range(time[1]), lambda: torch.arange(time[1]), lambda: (1, 2)[time[0]],
            lambda: torch.full((2,), time[0]), lambda: torch.zeros(time[1]), lambda: time.split(time[8]),
            lambda: torch.equal(time, time), lambda: torch.allclose(time, time), lambda: 3 in time,
            lambda: time.argwhere(), lambda: torch.where(time > 3), lambda: time.masked_select(time > 3),
            lambda: time.clone().index_put_((time > 3,), time[0]), lambda: time.unique_consecutive(),
            lambda: time.double().multinomial(1), lambda: time.double().histc(),
            lambda: torch.linalg.solve(torch.eye(3, device=x.device), torch.eye(3, device=x.device)),
        ]  # fmt: skip
        for count, function in enumerate(waiting, 1):
            function()
            assert device.waits.total() == 1 + count, count
        host = time.cpu()
        count = device.waits.total()
        host.nonzero(), host.tolist(), (host + 1).cpu(), host.to(x.device, non_blocking=True), host[host > 3]
        waitless = [
            lambda: functional.one_hot(time, 9), lambda: time.double().multinomial(3, replacement=True),
            lambda: torch.linalg.solve_ex(torch.eye(3, device=x.device), torch.eye(3, device=x.device)),
            lambda: time.masked_fill(time > 3, 0), lambda: torch.searchsorted(time, time),
            lambda: time.double().histc(9, 0, 9), lambda: torch.rand(3, generator=Generator(), device=x.device),
            lambda: time[2:5], lambda: time[3] + torch.tensor(1), lambda: time.new_full((2,), 1),
        ]  # fmt: skip
        for place, function in enumerate(waitless):
            function()
            assert device.waits.total() == count, place
        functional.one_hot(time)  # reads the largest value, and on a CPU the smallest
        assert device.waits.total() > count
        with pytest.raises(RuntimeError, match="add takes tensors of one device"):
            time + torch.arange(9)
        with pytest.raises(RuntimeError, match="lengths must be on the CPU"):
            pack_padded_sequence(torch.rand(9, 2, 1, device=x.device), time[1:3], enforce_sorted=False)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["coles", "ocp"])
def test_a_gpu_waits_once_for_views_encoding_and_loss(name: str) -> None:
    encoder = make.encoder("gru").cuda()
    method = (CoLES(encoder, RandomSlices(2, 3, 5)) if name == "coles" else ocp(encoder, length=2)).cuda()
    x, rng = make.sequences([9, 12, 7, 20]).to("cuda"), torch.Generator("cuda").manual_seed(0)
    method(x, rng).backward()  # cuDNN measures its kernels
    on_host(x.lengths)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            method(x[torch.arange(len(x))], rng).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len([w for w in caught if "synchronizing" in str(w.message)]) == 1, [str(w.message) for w in caught]
