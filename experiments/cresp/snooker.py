"""Snooker: do two balls overlap at a given time? Table 3 and Figure 6b of Mathieu et al. 2021."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

import eventvec as ev
from eventvec.encoders.at_places import KernelMean
from eventvec.encoders.heads import PlainHead
from eventvec.encoders.points import Numbers, PointEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.methods import CReSP, MetaCDE, TargetedCReSP, cnp, covariate_use, fclr
from eventvec.methods.permuted_covariates import CovariateUse
from eventvec.sequences import Sequences
from eventvec.statistics import Scores
from eventvec.views import hold_out
from experiments.command_line import Row
from experiments.cresp.pictures import Images, PictureDecoder
from experiments.cresp.processes import Snooker, draw, snooker
from experiments.jobs import side_by_side
from experiments.line_chart import Axis, Line, Panel

Looks = Literal["positions", "pictures"]
LOOKS = 5  # of a context
TEST_SEED, UNSEEN_SEED = 1, 2  # of the test pairs, and of those on which the use of x* is measured
TIMES = torch.linspace(0, 1, 41)  # of the curve
CONTEXTS = 50  # of the curve
EPOCHS = {"positions": 66, "pictures": 33}
NAMES = {
    "cresp": "targeted CReSP", "metacde": "MetaCDE", "cnp": "CNP", "fclr": "FCLR",
    "cresp_untargeted": "untargeted CReSP",
}  # fmt: skip
PAPER = {"cresp": 0.968, "metacde": 0.877, "cnp": 0.853, "fclr": 0.856}  # on pictures
TARGETED = (TargetedCReSP, MetaCDE)


@dataclass(frozen=True)
class Outcome:
    """What one network showed.

    Args:
        accuracy: On the test pairs.
        use: Whether the prediction uses x*, None for methods without a contrastive loss at x*.
        curve: `(contexts, times)` the probability of overlap for one pair of balls, None for untargeted methods.
    """

    accuracy: float
    use: CovariateUse | None
    curve: np.ndarray[Any, Any] | None


def study(small: bool) -> tuple[list[Row], list[Panel]]:
    """Accuracy of "do the balls overlap at x*?", linear in the embedding of 5 looks: positions, or pictures."""
    networks = {"positions": (0,) if small else (0, 1, 2), "pictures": (0,)}
    jobs = [
        (name, looks, seed, small)
        for looks in ("pictures", "positions")
        for name in NAMES
        for seed in networks[looks]
        if not (small and looks == "pictures" and name not in ("cresp", "cnp"))
    ]
    outcomes = dict(zip(jobs, side_by_side(outcome, jobs), strict=True))
    test = _pairs(small, TEST_SEED)
    rows: list[Row] = [_row("", "none: majority label", [majority(test)], len(test))]
    lines = [Line("true", [(t, p) for t, p in zip(TIMES.tolist(), _overlaps(_crossing(test)).tolist(), strict=True)])]
    for looks in networks:
        for name in NAMES:
            runs = [result for job, result in outcomes.items() if job[:2] == (name, looks)]
            if not runs:
                continue
            paper = PAPER.get(name) if looks == "pictures" else None
            rows.append(_row(looks, NAMES[name], [run.accuracy for run in runs], len(test), paper, runs[0].use))
            if name == "cresp":
                curves = np.concatenate([run.curve for run in runs if run.curve is not None])
                points = list(zip(TIMES.tolist(), curves.mean(0).tolist(), strict=True))
                lines.append(Line(looks, points, curves.std(0).tolist()))
    title = f"Figure 6b: probability of overlap, {CONTEXTS} contexts of {LOOKS} looks (band: standard deviation)"
    return rows, [Panel(title, Axis("time", (0, 0.2, 0.4, 0.6, 0.8, 1)), Axis("", (0, 0.5, 1)), lines)]


def outcome(name: str, looks: Looks, seed: int, small: bool) -> Outcome:
    """Return what a network showed that was trained on 3,000 pairs of balls.

    Args:
        name: Of the method.
        looks: What is observed.
        seed: Of the network and its training.
        small: Whether to do a fraction of the work.
    """
    training, test, unseen = (_pairs(small, data_seed) for data_seed in (0, TEST_SEED, UNSEEN_SEED))
    torch.manual_seed(seed)
    method = _method(name, looks)
    ev.fit(method, training, epochs=1 if small else EPOCHS[looks], batch_size=64, lr=0.002, seed=seed)
    features = [_features(method, data, looks, data_seed) for data_seed, data in enumerate((training, test))]
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(*features[0])
    use, targeted = None, isinstance(method, TARGETED)
    if targeted:
        use = covariate_use(method, unseen.sequences, torch.Generator().manual_seed(0))
    return Outcome(float(model.score(*features[1])), use, _curve(method, model, test, looks) if targeted else None)


def majority(data: ev.Dataset) -> float:
    """Return the share of times at which each pair has its more frequent label: the accuracy without the time."""
    x, times = data.sequences, torch.linspace(0, 1, 201)
    rows = torch.arange(len(x)).repeat_interleave(len(times))
    overlap = Snooker().overlap(x[rows], times.repeat(len(x))).view(len(x), -1).float().mean(1)
    return float(torch.maximum(overlap, 1 - overlap).mean())


def _pairs(small: bool, seed: int) -> ev.Dataset:
    return snooker(100 if small else 3000, seed)


def _method(name: str, looks: Looks) -> Any:
    """Return a method of width 128; CReSP has two layers of self-attention, the others have none, as in the paper."""
    pictures = looks == "pictures"
    points = PointEncoder(Images(dim=128) if pictures else Numbers(4, width=128))
    views = Snooker(count=1, length=LOOKS + 1, observations=looks)
    if name == "metacde":
        return MetaCDE(KernelMean(points), views)
    encoder = SetEncoder(points, dim=128, layers=2 if name in ("cresp", "cresp_untargeted") else 0, pair="gated")
    if name == "cresp":
        return TargetedCReSP(encoder, views)
    if name == "cnp":
        return cnp(encoder, views, PictureDecoder(width=32) if pictures else PlainHead())
    halves = Snooker(count=2, length=(LOOKS + 1) // 2, observations=looks)
    return fclr(encoder, halves) if name == "fclr" else CReSP(encoder, halves)


def _features(method: Any, data: ev.Dataset, looks: Looks, seed: int) -> tuple[Any, Any]:
    """Return features of a context of 5 looks and a time, and whether the balls overlap then.

    They are the prediction at x* for a targeted method, and the context's embedding together with x* for others.
    """
    process = Snooker(count=1, length=LOOKS + 1, observations=looks)
    context = hold_out(draw(data, process, seed).sequences)
    time = context.static["x*"]
    assert isinstance(time, Tensor)
    return _representation(method, context), process.overlap(context, time[:, 0]).numpy()


def _representation(method: Any, context: Sequences) -> Any:
    if isinstance(method, TARGETED):
        return ev.encode(method.predictor, context, events_per_batch=4096).numpy()
    time = torch.as_tensor(context.static["x*"])
    return torch.cat([ev.encode(method.encoder, context, events_per_batch=4096), time], 1).numpy()


def _curve(method: Any, model: Pipeline, test: ev.Dataset, looks: Looks) -> np.ndarray[Any, Any]:
    """Return `(contexts, times)` the predicted probability of overlap for the pair of balls of `_crossing`."""
    row = _crossing(test)
    process = Snooker(count=1, length=LOOKS, observations=looks)
    contexts = process(row[torch.zeros(CONTEXTS).long()], torch.Generator().manual_seed(0))[0]
    each = contexts[torch.arange(CONTEXTS).repeat_interleave(len(TIMES))]
    places = replace(each, static={**each.static, "x*": TIMES.repeat(CONTEXTS)[:, None]})
    return np.asarray(model.predict_proba(_representation(method, places))[:, 1]).reshape(CONTEXTS, len(TIMES))


def _crossing(test: ev.Dataset) -> Sequences:
    """Return the first test pair that is apart at both ends and overlaps for half of the time, or the nearest to it."""
    x = test.sequences
    rows = torch.arange(len(x)).repeat_interleave(len(TIMES))
    overlap = Snooker().overlap(x[rows], TIMES.repeat(len(x))).view(len(x), -1)
    crosses = ~overlap[:, 0] & ~overlap[:, -1]
    distance = (overlap.float().mean(1) - 0.5).abs()
    return x[torch.where(crosses, distance, 1.0).argmin()[None]]


def _overlaps(row: Sequences) -> Tensor:
    return Snooker().overlap(row[torch.zeros(len(TIMES)).long()], TIMES).float()


def _row(
    looks: str,
    embedding: str,
    accuracies: list[float],
    pairs: int,
    paper: float | None = None,
    use: CovariateUse | None = None,
) -> Row:
    """Return a row of the table; its interval is over networks, or over test pairs if there is one network."""
    mean = float(np.mean(accuracies))
    binomial = 1.96 * (mean * (1 - mean) / pairs) ** 0.5
    values = {} if use is None else {name: getattr(use, name) for name in ("loss", "permuted", "floor", "chance")}
    return {
        "looks": looks, "embedding": embedding, "paper": "" if paper is None else paper, "ours": mean,
        "±": Scores(tuple(accuracies)).interval if len(accuracies) > 1 else binomial,
        "difference": "" if paper is None else mean - paper, "networks": len(accuracies),
        **dict.fromkeys(("loss", "permuted", "floor", "chance"), ""), **values,
    }  # fmt: skip
