"""Snooker: do two balls overlap at a given time? Table 3 and Figure 6b of Mathieu et al. 2021.

Each method has networks without self-attention, as in the paper's table, and with two layers of it, in batches of two
sizes, for equal numbers of steps. Each network is tested with 5 looks at each game, as in the training, and with 9, as
in the public code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import eventvec as ev
from eventvec.sequences import Array
from eventvec.statistics import Scores
from eventvec.statistics.estimates import Estimate, decimal
from eventvec.statistics.intervals import NORMAL
from eventvec.statistics.resampling import resample
from experiments.command_line import Row
from experiments.cresp.processes import Observations, Snooker
from experiments.cresp.snooker_networks import (
    LOOKS,
    PROBES,
    TEST,
    TIMES,
    Arm,
    Outcome,
    Probe,
    crossing,
    outcome,
    pairs,
)
from experiments.differences import Paired, of_one_model, paired
from experiments.jobs import side_by_side
from experiments.line_chart import Axis, Line, Panel

NAMES = {
    ("cresp", 0): "targeted CReSP", ("cresp", 2): "targeted CReSP", ("metacde", 0): "MetaCDE",
    ("cnp", 0): "CNP", ("cnp", 2): "ACNP", ("fclr", 0): "FCLR", ("fclr", 2): "untargeted CReSP",
    ("supervised", 0): "supervised", ("supervised", 2): "supervised",
}  # fmt: skip
"""Methods and layers. MetaCDE weighs observations by their times alone, so attention has no place in it."""
PAPER = {"cresp": (0.968, 0.001), "metacde": (0.877, 0.003), "cnp": (0.853, 0.005), "fclr": (0.856, 0.003)}
"""Accuracies on pictures without attention, over six networks, and the half-widths of their 95 % intervals."""
CONTRASTIVE = (("cresp", 0), ("cresp", 2), ("metacde", 0))
OTHERS = (("cnp", 0), ("fclr", 0), ("supervised", 0), ("supervised", 2))
BATCH, LARGE_BATCH = 64, 256
Networks = tuple[Observations, int, Sequence[tuple[str, int]], tuple[int, ...]]
"""What is observed, the batch size, methods and layers, and the seeds."""
WITHOUT_ATTENTION = tuple((name, layers) for name, layers in NAMES if not layers)
POSITIONS: tuple[Networks, ...] = (
    ("positions", BATCH, tuple(NAMES), (0, 1, 2)),
    ("positions", LARGE_BATCH, WITHOUT_ATTENTION, (0, 1, 2)),
)
PICTURES: tuple[Networks, ...] = (("pictures", BATCH, (("cresp", 0), ("metacde", 0)), (0,)),)
PICTURE_BATCHES: tuple[Networks, ...] = (
    ("pictures", BATCH, CONTRASTIVE, (0, 1)),
    ("pictures", BATCH, OTHERS, (0,)),
    ("pictures", LARGE_BATCH, (*CONTRASTIVE, *OTHERS), (0,)),
)
"""For a GPU: on a CPU, a step on 256 rows of pictures takes 3.5 times as long as one on 64."""
SMALL = (("cresp", 0), ("metacde", 0), ("cnp", 0), ("fclr", 2), ("supervised", 0))
"""The networks of a small study, one each."""
Scored = Mapping[tuple[Arm, Probe], Sequence[Scores]]
"""The accuracy of each network of a cell, by cells and probes."""


def positions(small: bool, keep: Path) -> list[Row]:
    """Return the accuracy of "do the balls overlap at x*?", linear in the embedding of positions at 5 and 9 times."""
    table = rows(_outcomes(POSITIONS, small, keep))
    return [dict.fromkeys(table[0], "") | majority_row(pairs(small, TEST)), *table]


def pictures(small: bool, keep: Path) -> list[Row]:
    """Return the same for pictures: one network each of the two methods that predict at x*, in batches of 64."""
    return rows(_outcomes(PICTURES, small, keep))


def picture_batches(small: bool, keep: Path) -> tuple[list[Row], list[Panel]]:
    """Return the same for all methods in batches of 64 and of 256, for equal steps, and Figure 6b."""
    outcomes = _outcomes(PICTURE_BATCHES, small, keep)
    return rows(outcomes), [_panel(outcomes, pairs(small, TEST))]


def arms(plan: Sequence[Networks], small: bool) -> list[Arm]:
    """Return the networks of a plan, or some of them."""
    each = [
        Arm(name, observations, layers, batch, seed)
        for observations, batch, networks, seeds in plan
        for seed in seeds
        for name, layers in networks
    ]
    return [arm for arm in each if not small or (arm.seed == 0 and (arm.name, arm.layers) in SMALL)]


def _outcomes(plan: Sequence[Networks], small: bool, keep: Path) -> dict[Arm, Outcome]:
    each = arms(plan, small)
    return dict(zip(each, side_by_side(outcome, [(arm, small, keep) for arm in each]), strict=True))


def majority_row(test: ev.Dataset) -> Row:
    """Return the accuracy of the more frequent label of each pair, with its interval."""
    of_pairs = majority(test)
    half_width = float(NORMAL * of_pairs.std(ddof=1) / math.sqrt(len(of_pairs)))
    return {"embedding": "none: majority label", "ours": float(of_pairs.mean()), "±": half_width}


def majority(data: ev.Dataset) -> Array:
    """Return `(pairs,)` the share of times at which a pair has its more frequent label: the accuracy without x*."""
    x, times = data.sequences, torch.linspace(0, 1, 201)
    each = torch.arange(len(x)).repeat_interleave(len(times))
    overlap = Snooker().overlap(x[each], times.repeat(len(x))).view(len(x), -1).float().mean(1)
    return torch.maximum(overlap, 1 - overlap).numpy()


def rows(outcomes: Mapping[Arm, Outcome]) -> list[Row]:
    """Return a row for each method, number of layers, batch size and probe, with differences to other rows.

    All intervals hold the sampling of the test pairs and the spread between networks, see `Paired`; one network has
    none. CReSP and MetaCDE are compared with as many layers, so MetaCDE only with those that have none.
    """
    runs = by_cell(outcomes)
    scored = scores(runs)
    return [_row(cell, probe, runs[cell], scored) for cell, probe in scored]


def by_cell(outcomes: Mapping[Arm, Outcome]) -> dict[Arm, list[Outcome]]:
    """Return what the networks of each cell showed."""
    runs: dict[Arm, list[Outcome]] = {}
    for arm, result in outcomes.items():
        runs.setdefault(arm.cell, []).append(result)
    return runs


def _row(cell: Arm, probe: Probe, runs: Sequence[Outcome], scored: Scored) -> Row:
    ours, use, place = Paired(tuple(scored[cell, probe])), runs[0].use, PROBES[cell.observations].index(probe)
    interval = ours.interval if len(runs) > 1 else ""
    paper = PAPER.get(cell.name) if cell.observations == "pictures" and not cell.layers else None

    def ahead(a: Arm, b: Arm) -> str:
        return lead((a, probe), (b, probe), scored)

    return {
        "observations": cell.observations, "embedding": NAMES[cell.name, cell.layers], "layers": cell.layers,
        "batch": cell.batch, "looks": probe.looks, "probe's pairs": probe.pairs,
        "paper": paper[0] if paper else "", "ours": ours.mean, "±": interval,
        "difference": signed(ours.mean - paper[0], math.hypot(float(interval or math.nan), paper[1])) if paper else "",
        "CReSP ahead": ahead(replace(cell, name="cresp"), cell),
        "MetaCDE ahead": ahead(replace(cell, name="metacde"), cell),
        "attention adds": ahead(cell, replace(cell, layers=0)),
        "batch adds": ahead(cell, replace(cell, batch=BATCH)),
        "to 5 looks": lead((cell, probe), (cell, Probe(LOOKS)), scored),
        "of the networks": " ".join(decimal(float(run.test[place].mean())) for run in runs),
        "other pairs": float(np.mean([run.choosing[place].mean() for run in runs])),
        "loss": use.loss if use else "", "permuted": use.permuted if use else "",
        "CPU seconds": float(sum(run.training.get("CPU seconds", 0) for run in runs)),
    }  # fmt: skip


def scores(runs: Mapping[Arm, Sequence[Outcome]]) -> dict[tuple[Arm, Probe], list[Scores]]:
    """Return the accuracy of each network on the test pairs, by cells and probes."""
    weights = resample(next(iter(runs.values()))[0].test.shape[1], seed=0)
    return {
        (cell, probe): [_score(run.test[place], weights) for run in of_cell]
        for cell, of_cell in runs.items()
        for place, probe in enumerate(PROBES[cell.observations])
    }


def _score(right: Array, weights: Array) -> Scores:
    """Return the accuracy of a network."""
    return of_one_model(float(right.mean()), (weights @ right.astype(float)) / weights.sum(1))


def lead(a: tuple[Arm, Probe], b: tuple[Arm, Probe], scored: Scored) -> str:
    """Return the lead of networks over others, nothing if the two are the same or one of them is not there.

    It has an interval if both sides have several networks.
    """
    if a == b or a not in scored or b not in scored:
        return ""
    ahead = paired(scored[a], scored[b])
    return signed(ahead.mean, ahead.interval if min(len(scored[a]), len(scored[b])) > 1 else math.nan)


def signed(value: float, half_width: float) -> str:
    """Return the text of a difference and its interval, which is NaN if there is none."""
    return str(Estimate.around(value, half_width, signed=True))


def _panel(outcomes: Mapping[Arm, Outcome], test: ev.Dataset) -> Panel:
    """Return Figure 6b for pictures: the probability of overlap of one pair of balls, by the layers of CReSP."""
    row = crossing(test)
    truth = Snooker().overlap(row[torch.zeros(len(TIMES)).long()], TIMES).float().tolist()
    lines = [Line("true", list(zip(TIMES.tolist(), truth, strict=True)))]
    for layers in (0, 2):
        cell = Arm("cresp", "pictures", layers, BATCH)
        of = [arm for arm in outcomes if arm.cell == cell]
        if of:
            curves = np.concatenate([outcomes[arm].curve for arm in of])
            points = list(zip(TIMES.tolist(), curves.mean(0).tolist(), strict=True))
            lines.append(Line(f"{layers} layers", points, curves.std(0).tolist()))
    contexts = max(len(outcome.curve) for outcome in outcomes.values())
    title = f"Figure 6b: probability of overlap, {contexts} contexts of {LOOKS} pictures (band: standard deviation)"
    return Panel(title, Axis("time", (0, 0.2, 0.4, 0.6, 0.8, 1)), Axis("", (0, 0.5, 1)), lines)
