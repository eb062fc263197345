"""Features of several blocks that are computed side by side."""

from __future__ import annotations

import threading
from typing import Any

import polars as pl
import pytest
import torch
from torch import Tensor, nn

import eventvec as ev
from eventvec.blocks.matrices import features_of
from eventvec.blocks.rows import Features, Rows
from eventvec.blocks.untrained import EventBlock
from eventvec.sequences import Sequences


class Timed(nn.Module):
    """An encoder whose numbers are the precision before and after something has happened."""

    dim = 2

    def __init__(self, wait: Any) -> None:
        super().__init__()
        self.wait = wait

    def forward(self, x: Sequences) -> Tensor:
        numbers = []
        for wait in (False, True):
            if wait:
                self.wait()
            numbers.append(["highest", "high", "medium"].index(torch.get_float32_matmul_precision()))
        return torch.tensor([numbers] * len(x), dtype=torch.float32)


class Ending(EventBlock):
    """A block that says when its features are computed."""

    ended = threading.Event()

    def features(self, rows: Rows) -> Features:
        result = super().features(rows)
        self.ended.set()
        return result


def test_a_block_that_ends_leaves_the_precision_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventvec.precision.onednn_agrees", lambda: True)
    monkeypatch.setattr("eventvec.blocks.matrices.FEW", 0)
    data = ev.read(pl.DataFrame({"id": [1, 2], "t": [1, 2]}), key="id", time="t")
    begun, ended = threading.Event(), Ending.ended
    blocks = {
        "first": Ending(Timed(lambda: begun.wait(60)), "first", {}, ()),
        "second": EventBlock(Timed(lambda: (begun.set(), ended.wait(60))), "second", {}, ()),
    }
    threads, before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(2)
    try:
        features = features_of(blocks, Rows(data))
    finally:
        torch.set_num_threads(threads)
    assert features["second"][0].tolist() == [[2, 2], [2, 2]]
    assert torch.get_float32_matmul_precision() == before


def test_networks_are_computed_apart_from_other_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventvec.precision.onednn_agrees", lambda: True)
    monkeypatch.setattr("eventvec.blocks.matrices.FEW", 0)
    data = ev.read(pl.DataFrame({"id": [1, 2], "t": [1, 2]}), key="id", time="t")
    inside, both = set[str](), list[set[str]]()

    class Seen(EventBlock):
        def features(self, rows: Rows) -> Features:
            name = "network" if getattr(self, "is_network", False) else "other"
            inside.add(name)
            both.append(set(inside))
            result = super().features(rows)
            inside.discard(name)
            return result

    class Network(Seen):
        is_network = True

    rest = threading.Event()
    slow = Timed(lambda: rest.wait(0.2))
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        features = features_of(
            {"other": Seen(slow, "other", {}, ()), "network": Network(slow, "network", {}, ())}, Rows(data)
        )
    finally:
        torch.set_num_threads(threads)
    assert list(features) == ["other", "network"]
    assert both == [{"network"}, {"other"}]
