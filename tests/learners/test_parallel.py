"""Work side by side: the results and their order, the threads inside, and what happens after a failure."""

from __future__ import annotations

from threading import Event

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from eventvec.errors import ConfigError
from eventvec.evaluation import score_features
from eventvec.learners.parallel import side_by_side


def test_results_are_in_the_order_of_the_tasks_and_progress_counts_work():
    calls = []
    tasks = [(i, i + 1) for i in range(9)]
    names = [f"task {i}" for i in range(9)]
    results = side_by_side(lambda a, b: a * b, tasks, 3, lambda *call: calls.append(call), names)
    assert results == [a * b for a, b in tasks]
    assert calls == [(i, 9, f"task {min(i, 8)}") for i in range(10)]


def test_each_task_has_one_thread_and_the_settings_return():
    before = torch.get_num_threads()
    threads = side_by_side(
        lambda: (torch.get_num_threads(), max(pool["num_threads"] for pool in threadpool_info())), [()] * 3, 2
    )
    assert threads == [(1, 1)] * 3
    assert torch.get_num_threads() == before


def test_an_error_of_a_task_is_raised_and_later_tasks_are_left_out():
    begun, before = [], torch.get_num_threads()

    def fail(i: int) -> None:
        begun.append(i)
        if i == 0:
            raise ValueError("task 0")
        Event().wait(0.1)  # the others last long enough to be left out

    with pytest.raises(ValueError, match="task 0"):
        side_by_side(fail, [(i,) for i in range(1000)], 1)
    assert len(begun) < 1000
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("models", [["lightgbm", "knn"], ["stacked", "logistic_regression"]])
def test_scores_do_not_depend_on_the_number_of_threads(models):
    rng = np.random.default_rng(0)
    y = rng.random(150) < 0.4
    sets = {name: rng.normal(size=(150, 4)) + y[:, None] for name in ("embedding", "aggregates")}
    one, three = (score_features(sets, y, models=models, folds=3, num_threads=n).to_dict() for n in (1, 3))
    assert one == three


def test_a_negative_number_of_threads_is_refused():
    with pytest.raises(ConfigError, match="num_threads must be at least 1, or 0 for all, got -1"):
        score_features({"z": np.zeros((20, 1))}, np.arange(20) % 2, num_threads=-1)
