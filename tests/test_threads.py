"""How many threads small and large models are given."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import eventvec as ev
import make
from eventvec.errors import ConfigError, DataError
from eventvec.learners.single_learners import Boosting, Samples, _boosted
from eventvec.sequences import Sequences
from eventvec.threads import SMALL, VARIABLE, as_many_threads_as_pay, size


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


class Seen(torch.nn.Module):
    """An encoder that notes how many threads it was computed with."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight, self.dim, self.threads = torch.nn.Parameter(torch.ones(dim, dim)), dim, set[int]()

    def forward(self, x: Sequences) -> torch.Tensor:
        self.threads.add(torch.get_num_threads())
        return self.weight[:1] * (1 + x.lengths.unsqueeze(1))


@pytest.mark.parametrize(("dim", "threads", "expected"), [(300, None, 1), (400, None, 3), (300, 2, 2), (400, 2, 2)])
def test_small_models_have_one_thread_and_the_option_overrides_it(dim: int, threads: int | None, expected: int) -> None:
    encoder, data = Seen(dim), make.dataset([30, 40, 50, 60])
    ev.embed(encoder, data, threads=threads)
    assert encoder.threads == {expected}
    encoder.threads.clear()
    ev.fit(data, method=ev.methods.CoLES(encoder), epochs=1, batch_size=2, threads=threads)
    assert encoder.threads == {expected}
    assert torch.get_num_threads() == 3


def test_the_variable_leaves_the_number_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "3")
    encoder = Seen(4)
    ev.embed(encoder, make.dataset([3]))
    assert encoder.threads == {3}


def test_the_number_is_given_back_after_an_error_and_recorded_in_the_run() -> None:
    with pytest.raises(DataError), as_many_threads_as_pay(torch.nn.Linear(2, 2)):
        raise DataError(f"computed with {torch.get_num_threads()} thread")
    assert torch.get_num_threads() == 3
    run = ev.fit(make.dataset([5] * 6), method="coles", epochs=1, beside=[], encoder={"name": "gru", "dim": 8})
    assert run.info["threads"] == 1


def test_a_number_below_one_is_refused() -> None:
    for refused in (
        lambda: ev.embed(Seen(4), make.dataset([3]), threads=0),
        lambda: ev.fit(make.dataset([5] * 6), method="coles", epochs=1, threads=0),
    ):
        with pytest.raises(ConfigError, match="threads must be at least 1, got 0"):
            refused()


def test_states_of_128_are_small_and_of_256_are_not() -> None:
    events = ev.encoders.EventEncoder(make.schema())
    sizes = [
        size(encoder(events, dim=dim)) for encoder in (ev.encoders.GRU, ev.encoders.Transformer) for dim in (128, 256)
    ]
    assert [each <= SMALL for each in sizes] == [True, False] * 2


def test_a_thread_that_begins_inside_the_block_of_another_one_is_given_the_usual_number() -> None:
    small, large, numbers = torch.nn.Linear(2, 2), torch.nn.Linear(400, 400), dict[str, int]()

    def other() -> None:
        with as_many_threads_as_pay(large):
            numbers["large"] = torch.get_num_threads()
            with as_many_threads_as_pay(small):
                numbers["small"] = torch.get_num_threads()
            numbers["large again"] = torch.get_num_threads()
        numbers["after"] = torch.get_num_threads()

    with as_many_threads_as_pay(small):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert torch.get_num_threads() == 1
    assert numbers == {"large": 3, "small": 1, "large again": 3, "after": 3}
    assert torch.get_num_threads() == 3


def test_what_is_no_module_and_what_has_no_weights_keeps_the_number() -> None:
    for model in (object(), torch.nn.Identity()):
        with as_many_threads_as_pay(model):
            assert torch.get_num_threads() == 3


@pytest.mark.parametrize(
    ("width", "asked", "variable", "expected"),
    [(1, None, None, 1), (2, None, None, 0), (1, None, "3", 0), (1, 2, None, 2), (2, 1, None, 1)],
)
def test_few_features_have_trees_of_one_thread_and_both_the_job_and_the_variable_override_it(
    monkeypatch: pytest.MonkeyPatch, width: int, asked: int | None, variable: str | None, expected: int
) -> None:
    pytest.importorskip("lightgbm")
    if variable:
        monkeypatch.setenv(VARIABLE, variable)
    monkeypatch.setattr("eventvec.threads.SMALL_TREES", 100)
    x = np.arange(100.0 * width).reshape(100, width)
    job = Samples("binary", 2, x, np.arange(100) % 2, x[:0], num_threads=asked)
    trees = _boosted(job, Boosting(1, 0.1, 0.5, 6, 31))
    assert trees.booster.params["num_threads"] == expected
