"""How often the truth of a description alone tells a history from its counterfeits."""

from __future__ import annotations

import numpy as np
import torch

from eventvec.views.counterfeits import Exchanged
from experiments.tpp.arms import COUNTERFEITS, Array, counterfeits
from experiments.tpp.benchmarks import KEY, Benchmark, History
from experiments.tpp.scores import Scored, mean_of
from experiments.tpp.sentences import parse
from experiments.tpp.truth import History as Checked


def exchanged_histories(data: Benchmark, exchanged: Exchanged) -> tuple[list[History], Array]:
    """Return the counterfeits of the test part, history after history, and `(n, COUNTERFEITS)` which of them differ.

    Args:
        data: The set.
        exchanged: `types` or `gaps`.

    Example:
        >>> histories, differ = exchanged_histories(benchmark("usgs_earthquakes"), "gaps")  # doctest: +SKIP
    """
    dataset = data.dataset()
    names = ("", "", *dataset.schema.categorical[0].values)
    views, differ = counterfeits(dataset.sequences[torch.as_tensor(data.split.test)], exchanged)
    codes, times = (views.values(name).split(views.lengths.tolist()) for name in ("type_text", "time"))
    keys = data.events[KEY].unique(maintain_order=True).gather(data.split.test.repeat(COUNTERFEITS))
    histories = [
        History(key, [names[each] for each in code.tolist()], time.tolist())
        for key, code, time in zip(keys, codes, times, strict=True)
    ]
    return histories, differ


def perfect_apart(data: Benchmark, exchanged: Exchanged) -> Scored:
    """Return how often a description is false of a counterfeit of its history; a half where it is true of both.

    Args:
        data: The set, of whose test part counterfeits are drawn.
        exchanged: `types` or `gaps`.

    Example:
        >>> perfect_apart(benchmark("usgs_earthquakes"), "gaps")  # doctest: +SKIP
    """
    histories, differ = exchanged_histories(data, exchanged)
    statements = [parse(data.descriptions[i]) for i in data.split.test]
    true = [
        all(map(Checked(names, times).holds, statements[place // COUNTERFEITS]))
        for place, (_, names, times) in enumerate(histories)
    ]
    right = 1 - 0.5 * np.array(true).reshape(differ.shape)
    rows = differ.any(1)
    return mean_of((right * differ)[rows].sum(1) / differ[rows].sum(1))
