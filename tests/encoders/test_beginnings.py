"""Several times of an entity are read at once: the embeddings of beginnings, and their gradients, row by row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests import make

from eventvec.encoders import EventEncoder, Recurrent, Transformer
from eventvec.encoders.interface import embed_beginnings
from eventvec.encoders.pooling import pooled_until
from eventvec.sequences import Sequences, histories


def beginnings(x: Sequences, counts: list[int], seed: int = 0) -> Sequences:
    """Return several beginnings of each row, in random order; some are empty, some whole, some repeated."""
    rng = np.random.default_rng(seed)
    rows = torch.arange(len(x)).repeat_interleave(torch.tensor(counts))
    lengths = torch.tensor([int(rng.integers(0, n + 1)) for n in x.lengths[rows].tolist()])
    order = torch.from_numpy(rng.permutation(len(rows)))
    return x.slice(rows, torch.zeros_like(rows), lengths)[order]


@pytest.mark.parametrize("read_out", [("last",), ("mean",), ("last", "mean", "max")])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_every_beginning_has_the_embedding_and_the_gradient_of_its_row(cell: str, read_out: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    x = beginnings(make.sequences([5, 0, 12, 1, 40, 7]), [3, 2, 4, 1, 9, 1])
    encoder = Recurrent(EventEncoder(make.schema()), cell, dim=6, layers=2, read_out=read_out).eval()  # type: ignore[arg-type]
    found, gradients = [], []
    for embed in (
        lambda rows: embed_beginnings(encoder, rows),
        lambda rows: torch.cat([encoder(rows[[i]]) for i in range(len(rows))]),
    ):
        encoder.zero_grad()
        z = embed(x)
        (z * torch.linspace(-1, 1, z.numel()).view_as(z)).sum().backward()
        found.append(z.detach())
        gradients.append([weight.grad for weight in encoder.parameters()])
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-5)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_each_history_is_read_once() -> None:
    encoder = Recurrent(EventEncoder(make.schema()), dim=4)
    x, read = make.sequences([30, 20]), []
    encoder.events.register_forward_hook(lambda _, given, out: read.append(len(out)))
    embed_beginnings(encoder, beginnings(x, [10, 10]))
    assert sum(read) <= 50


def test_an_encoder_without_beginnings_reads_every_row() -> None:
    torch.manual_seed(0)
    x = beginnings(make.sequences([5, 3]), [2, 3])
    encoder = Transformer(EventEncoder(make.schema()), dim=8, heads=2).eval()
    torch.testing.assert_close(embed_beginnings(encoder, x), encoder(x))


def test_histories_are_the_longest_rows_in_order_of_their_first_row() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 12))
        x = Sequences({}, torch.from_numpy(rng.integers(0, 4, n) * 10), torch.from_numpy(rng.integers(0, 9, n)))
        longest, history = histories(x)
        starts = list(dict.fromkeys(x.starts.tolist()))
        assert [starts[number] for number in history] == x.starts.tolist()
        for start, row in zip(starts, longest.tolist(), strict=True):
            assert x.starts[row] == start
            assert x.lengths[row] == x.lengths[x.starts == start].max()


def test_values_are_pooled_until_each_end() -> None:
    rng = np.random.default_rng(1)
    for _ in range(30):
        lengths = rng.integers(0, 7, 4)
        first = np.concatenate([[0], lengths.cumsum()[:-1]])
        rows = np.concatenate([np.arange(4), rng.integers(0, 4, 6)])
        ends = first[rows] + np.concatenate([lengths, [rng.integers(0, lengths[row] + 1) for row in rows[4:]]])
        values = torch.from_numpy(rng.normal(size=(lengths.sum(), 2)))
        order = rng.permutation(len(rows))
        sums, maxima = pooled_until(values, torch.from_numpy(rows[order]), torch.from_numpy(ends[order]))
        for row, end, total, highest in zip(rows[order], ends[order], sums, maxima, strict=True):
            part = values[first[row] : end]
            torch.testing.assert_close(total, part.sum(0))
            if len(part):
                assert highest.tolist() == part.amax(0).tolist()
