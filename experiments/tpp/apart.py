"""How often the truth of a description alone tells a history from its counterfeits."""

from __future__ import annotations

import numpy as np
import torch

from eventvec.views import Counterfeits
from eventvec.views.counterfeits import Exchanged
from experiments.tpp.arms import COUNTERFEITS
from experiments.tpp.benchmarks import SEED, Benchmark
from experiments.tpp.scores import Scored, mean_of
from experiments.tpp.sentences import parse
from experiments.tpp.truth import History


def perfect_apart(of: Benchmark, exchanged: Exchanged) -> Scored:
    """Return how often a description is false of a counterfeit of its history; a half where it is true of both.

    Args:
        of: The set, of whose test part counterfeits are drawn.
        exchanged: `types` or `gaps`.

    Example:
        >>> perfect_apart(benchmark("usgs_earthquakes"), "gaps")  # doctest: +SKIP
    """
    data = of.dataset()
    names = ("", "", *data.schema.categorical[0].values)
    x = data.sequences[torch.as_tensor(of.split.test)]
    views, source = Counterfeits(COUNTERFEITS, exchanged)(x, torch.Generator().manual_seed(SEED))
    codes, times = (views.values(name).split(views.lengths.tolist()) for name in ("type_text", "time"))
    own = [
        History([names[code] for code in row.values("type_text").tolist()], row.values("time").tolist())
        for row in (x[[i]] for i in range(len(x)))
    ]
    statements = [parse(of.descriptions[i]) for i in of.split.test]
    right = [list[float]() for _ in own]
    for row, code, time in zip(source.tolist(), codes, times, strict=True):
        counterfeit = History([names[each] for each in code.tolist()], time.tolist())
        if (counterfeit.names, counterfeit.at) != (own[row].names, own[row].at):
            right[row].append(0.5 if all(map(counterfeit.holds, statements[row])) else 1.0)
    return mean_of(np.array([np.mean(each) for each in right if each]))
