"""How often the truth of a description alone tells a history from its counterfeits."""

from __future__ import annotations

import numpy as np
import torch

from eventvec.views.counterfeits import Exchanged
from experiments.tpp.arms import COUNTERFEITS, counterfeits
from experiments.tpp.benchmarks import Benchmark
from experiments.tpp.scores import Scored, mean_of
from experiments.tpp.sentences import parse
from experiments.tpp.truth import History


def perfect_apart(data: Benchmark, exchanged: Exchanged) -> Scored:
    """Return how often a description is false of a counterfeit of its history; a half where it is true of both.

    Args:
        data: The set, of whose test part counterfeits are drawn.
        exchanged: `types` or `gaps`.

    Example:
        >>> perfect_apart(benchmark("usgs_earthquakes"), "gaps")  # doctest: +SKIP
    """
    dataset = data.dataset()
    names = ("", "", *dataset.schema.categorical[0].values)
    x = dataset.sequences[torch.as_tensor(data.split.test)]
    views, differ = counterfeits(x, exchanged)
    codes, times = (views.values(name).split(views.lengths.tolist()) for name in ("type_text", "time"))
    histories = [
        History([names[each] for each in code.tolist()], time.tolist()) for code, time in zip(codes, times, strict=True)
    ]
    statements = [parse(data.descriptions[i]) for i in data.split.test]
    true = [all(map(history.holds, statements[place // COUNTERFEITS])) for place, history in enumerate(histories)]
    right = 1 - 0.5 * np.array(true).reshape(differ.shape)
    rows = differ.any(1)
    return mean_of((right * differ)[rows].sum(1) / differ[rows].sum(1))
