"""Other networks of the snooker study: target heads by name, and ResNet-18 and LARS beside the small network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from eventvec.statistics.estimates import decimal
from experiments.command_line import Row
from experiments.cresp.snooker import NAMES, PAPER, Scored, by_cell, lead, scores, signed
from experiments.cresp.snooker_networks import HEADS, PROBES, Arm, Outcome, Probe, outcome
from experiments.differences import Paired
from experiments.jobs import side_by_side

PAPER_STEPS = 11_700
"""200 epochs of 15,000 pairs in batches of 256, the size of the paper."""
LARGE = 256


def heads(small: bool, keep: Path) -> list[Row]:
    """Accuracy of targeted CReSP by its target head: ours, and the two of the public code."""
    return table(head_arms(small), small, keep)


def resnet(small: bool, keep: Path) -> list[Row]:
    """Accuracy on pictures with ResNet-18 and with LARS, beside the small network with Adam; needs a GPU."""
    return table(resnet_arms(small), small, keep)


def head_arms(small: bool) -> list[Arm]:
    """Return CReSP without self-attention with each head, on positions."""
    if small:
        return [Arm("cresp", "positions", 0, 64, head=head) for head in HEADS]
    return [Arm("cresp", "positions", 0, LARGE, seed, head) for head in HEADS for seed in (0, 1, 2)]


def resnet_arms(small: bool) -> list[Arm]:
    """Return CReSP without self-attention on pictures, with three convolutions and with ResNet-18."""
    if small:
        return [Arm("cresp", "pictures", 0, 64, network="resnet18", optimizer=name) for name in ("adam", "lars")]
    convolutions = [Arm("cresp", "pictures", 0, 64, seed) for seed in (0, 1)]
    convolutions += [Arm("cresp", "pictures", 0, LARGE)]
    convolutions += [Arm("cresp", "pictures", 0, LARGE, seed, optimizer="lars") for seed in (0, 1)]
    resnets = [Arm("cresp", "pictures", 0, 64, head=head, network="resnet18") for head in ("gated", "plain")]
    resnets += [Arm("cresp", "pictures", 0, LARGE, network="resnet18", optimizer=name) for name in ("adam", "lars")]
    return [*convolutions, *resnets]


def table(arms: Sequence[Arm], small: bool, keep: Path) -> list[Row]:
    """Return the rows of networks, which are trained or taken from the folder."""
    return rows(dict(zip(arms, side_by_side(outcome, [(arm, small, keep) for arm in arms]), strict=True)))


def rows(outcomes: Mapping[Arm, Outcome]) -> list[Row]:
    """Return a row for each kind of network and probe, with its lead over the same with one thing changed.

    A row is compared with our head, with three convolutions, and with Adam, where these are in the table.
    """
    runs = by_cell(outcomes)
    scored = scores(runs)
    return [_row(cell, probe, runs[cell], scored) for cell, probe in scored]


def _row(cell: Arm, probe: Probe, runs: Sequence[Outcome], scored: Scored) -> Row:
    ours, use, trained = Paired(tuple(scored[cell, probe])), runs[0].use, [run.training for run in runs]
    place = PROBES[cell.observations].index(probe)
    interval = ours.interval if len(runs) > 1 else ""
    paper = PAPER.get(cell.name) if cell.observations == "pictures" else None
    timed = [each for each in trained if "seconds" in each]  # networks of earlier versions have no seconds
    per_step = float(np.mean([each["seconds"] / each["steps"] for each in timed])) if timed else math.nan

    def over(other: Arm) -> str:
        return lead((cell, probe), (other, probe), scored)

    whole = PAPER_STEPS * per_step / 3600 if cell.batch == LARGE and timed else ""
    return {
        "observations": cell.observations, "embedding": NAMES[cell.name, cell.layers], "network": cell.network,
        "head": cell.head, "optimizer": cell.optimizer, "batch": cell.batch,
        "steps": min(each["steps"] for each in trained), "looks": probe.looks, "probe's pairs": probe.pairs,
        "paper": paper[0] if paper else "", "ours": ours.mean, "±": interval,
        "difference": signed(ours.mean - paper[0], math.hypot(float(interval or math.nan), paper[1])) if paper else "",
        "head adds": over(replace(cell, head="gated")),
        "ResNet adds": over(replace(cell, network="convolutions")),
        "LARS adds": over(replace(cell, optimizer="adam")),
        "of the networks": " ".join(decimal(float(run.test[place].mean())) for run in runs),
        "other pairs": float(np.mean([run.choosing[place].mean() for run in runs])),
        "loss": use.loss if use else "", "permuted": use.permuted if use else "",
        "seconds per step": per_step if timed else "", "paper's steps, hours": whole,
        "device": ", ".join(sorted({str(each.get("device", "cpu")) for each in trained})),
    }  # fmt: skip
