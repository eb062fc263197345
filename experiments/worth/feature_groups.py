"""What hand-crafted features of numbers within codes, and of the latest events, add to the others."""

from __future__ import annotations

import re

import numpy as np

from eventvec.blocks.handcrafted_sets import handcrafted_features
from eventvec.evaluation import score_features
from experiments.command_line import Row
from experiments.worth.halves import Problem

WITHIN = re.compile(r" where .*: (std|min|max|last|late mean)$|: since$")
LATEST = re.compile(r"(of|since) last \d+$")


def group_rows(problem: Problem, small: bool) -> list[Row]:
    """Return a row for the other features, and for those with each group and with both: AUROC under `stacked`."""
    z, names = handcrafted_features(problem.data)
    within, latest = (np.array([bool(group.search(name)) for name in names]) for group in (WITHIN, LATEST))
    others = ~(within | latest)
    chosen = {"others": others, "within codes": others | within, "latest": others | latest, "all": others | True}
    sets = {name: z[problem.rows][:, kept] for name, kept in list(chosen.items())[: 2 if small else None]}
    answer = score_features(sets, problem.y, folds=2 if small else 5)
    lead = {row["b"]: -row["difference"].value for row in answer.tables["differences"] if row["a"] == "others"}
    half = {row["b"]: row["difference"].half_width for row in answer.tables["differences"] if row["a"] == "others"}
    return [
        {"data": problem.name, "features": name, "columns": int(kept.sum()),
         "auroc": answer.row(features=name)["score"].value, "difference": lead.get(name), "interval": half.get(name)}
        for name, kept in chosen.items() if name in sets
    ]  # fmt: skip
