"""The study of what an embedding is worth: its candidate for today's default is the default."""

from __future__ import annotations

import pytest
import torch
from experiments.worth.candidates import default_of, tables
from experiments.worth.vectors import BESIDE

from eventvec.config import complete
from eventvec.sequences import Sequences
from eventvec.training.suggestions import suggest


@pytest.mark.parametrize("median", [2, 8, 40, 99, 100, 500])
@pytest.mark.parametrize("n", [20, 3_000])
def test_the_study_and_fit_agree_about_the_default(n: int, median: int) -> None:
    x = Sequences({"time": torch.zeros(1)}, torch.zeros(n).long(), torch.full((n,), median))
    of_study = tables(default_of(x), x)
    of_study["fit"]["beside"] = list(BESIDE)
    assert complete(of_study) == complete(suggest(x, {}))
