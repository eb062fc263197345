"""Sinusoids: which parameters does an embedding contain? Snooker: do two balls overlap at a given time?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import eventvec as ev
from eventvec.encoders.points import Images, Numbers, PointEncoder
from eventvec.encoders.sets import SetEncoder
from eventvec.methods import CReSP, TargetedCReSP, covariate_use, fclr
from eventvec.views import hold_out
from eventvec.views.processes import Sinusoids, Snooker, draw, sinusoids, snooker
from experiments.command_line import Row, print_epoch, run

SEED = 0
OBSERVATIONS = 20  # in a test view
REFERENCE = {  # by noise: mean squared errors of phase and amplitude in an earlier run of the same reduced setting
    0.0: {"cresp": (0.0051, 0.0015), "fclr": (0.0446, 0.0144)},
    2.0: {"cresp": (0.0200, 0.0055), "fclr": (0.0994, 0.0253)},
    8.0: {"cresp": (0.0094, 0.0025), "fclr": (0.0596, 0.0229)},
}

Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float32]]


def sinusoid_parameters(small: bool) -> list[Row]:
    """Mean squared error of phase and amplitude, linear in the embedding of 20 observations (width 64, 60 epochs)."""
    size, epochs = (400, 1) if small else (5000, 60)
    training, test = sinusoids(size, SEED), sinusoids(1000, SEED + 1)
    rows = []
    for noise in (2.0,) if small else REFERENCE:
        for name, layers in (("untrained", 2), ("fclr", 0), ("cresp", 2)):
            torch.manual_seed(SEED)
            encoder = SetEncoder(PointEncoder(), dim=64, layers=layers)
            make: Callable[..., CReSP] = CReSP if layers else fclr
            method = make(encoder, Sinusoids(count=2, length=5, noise=noise))
            if name != "untrained":
                ev.fit(method, training, epochs=epochs, batch_size=256, lr=0.001, seed=SEED, progress=print_epoch)
            process = Sinusoids(count=1, length=OBSERVATIONS, noise=noise)
            errors = _parameter_errors(encoder, draw(training, process, SEED), draw(test, process, SEED + 1))
            known = REFERENCE[noise].get(name, ("", ""))
            rows.append(
                {
                    "noise": noise, "encoder": name, "phase": errors[0], "phase known": known[0],
                    "amplitude": errors[1], "amplitude known": known[1],
                }
            )  # fmt: skip
    return rows


def snooker_overlap(small: bool) -> list[Row]:
    """Accuracy of "do the balls overlap at x*?", linear in the embedding of 5 looks at a pair (3,000 pairs, 66 epochs).

    The looks are the positions of the balls (three seeds) or pictures of them (one seed).
    """
    size, epochs = (100, 1) if small else (3000, 66)
    training, test, unseen = (snooker(size, SEED + i) for i in range(3))
    columns = ("observations", "embedding", "paper", "accuracy", "seeds", "loss", "x* permuted", "floor", "chance")
    empty: Row = dict.fromkeys(columns, "")
    rows: list[Row] = [{**empty, "embedding": "none: majority label", "accuracy": _majority(test)}]
    for observations, seeds in {"positions": (0,) if small else (0, 1, 2), "pictures": (0,)}.items():
        for name, paper in {"targeted": 0.968, "cresp_untargeted": "", "fclr": 0.856}.items():
            accuracies, use = [], None
            for seed in seeds:
                method = _snooker_method(name, observations, seed)
                ev.fit(method, training, epochs=epochs, batch_size=64, lr=0.002, seed=seed, progress=print_epoch)
                accuracies.append(_overlap_accuracy(method, training, test))
                if isinstance(method, TargetedCReSP):
                    use = covariate_use(method, unseen.sequences, torch.Generator().manual_seed(SEED))
            rows.append(
                {
                    **empty, "observations": observations, "embedding": name,
                    "paper": paper if observations == "pictures" else "", "accuracy": float(np.mean(accuracies)),
                    "seeds": ", ".join(f"{each:.3f}" for each in accuracies),
                }
            )  # fmt: skip
            if use is not None:
                rows[-1] |= {"loss": use.loss, "x* permuted": use.permuted, "floor": use.floor, "chance": use.chance}
    return rows


def _snooker_method(name: str, observations: Literal["positions", "pictures"], seed: int) -> CReSP | TargetedCReSP:
    """Return a method over looks at two balls, with two layers of self-attention if it is not FCLR."""
    torch.manual_seed(seed)
    looks = Images(dim=128) if observations == "pictures" else Numbers(4, width=128)
    encoder = SetEncoder(PointEncoder(looks), dim=128, layers=0 if name == "fclr" else 2, pair="gated")
    if name == "targeted":
        return TargetedCReSP(encoder, Snooker(count=1, length=6, observations=observations))
    views = Snooker(count=2, length=3, observations=observations)
    return fclr(encoder, views) if name == "fclr" else CReSP(encoder, views)


def _parameter_errors(encoder: nn.Module, training: ev.Dataset, test: ev.Dataset) -> list[float]:
    """Return the mean squared test errors of phase and amplitude, by ridge regression on standardised embeddings."""
    parameters = [_parameters(data) for data in (training, test)]
    z = [ev.encode(encoder, data.sequences).double().numpy() for data in (training, test)]
    model = make_pipeline(StandardScaler(), Ridge(1e-3)).fit(z[0], parameters[0])
    return [float(error) for error in np.square(model.predict(z[1]) - parameters[1]).mean(0)]


def _parameters(data: ev.Dataset) -> Matrix:
    static = data.sequences.static
    return np.stack([np.asarray(static[name]) for name in ("phase", "amplitude")], 1)


def _overlap_accuracy(method: CReSP | TargetedCReSP, training: ev.Dataset, test: ev.Dataset) -> float:
    """Return the test accuracy of logistic regression.

    Its features are the prediction at x* for a targeted method, and the context's embedding together with x* for
    others.
    """
    sets = []
    for data, seed in ((training, SEED), (test, SEED + 1)):
        process = replace(method.views, count=1, length=6)
        context = replace(data, sequences=hold_out(draw(data, process, seed).sequences))
        x, time = context.sequences, context.sequences.static["x*"]
        assert isinstance(time, Tensor)
        encoder = method.predictor if isinstance(method, TargetedCReSP) else method.encoder
        z = ev.encode(encoder, context.sequences, events_per_batch=4096)
        z = z if isinstance(method, TargetedCReSP) else torch.cat([z, time], 1)
        sets.append((z.numpy(), process.overlap(x, time[:, 0]).numpy()))
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(*sets[0])
    return float(model.score(*sets[1]))


def _majority(data: ev.Dataset) -> float:
    """Return the share of times at which each trajectory has its more frequent label: the accuracy without the time."""
    x, times = data.sequences, torch.linspace(0, 1, 201)
    rows = torch.arange(len(x)).repeat_interleave(len(times))
    overlap = Snooker().overlap(x[rows], times.repeat(len(x))).view(len(x), -1).float().mean(1)
    return float(torch.maximum(overlap, 1 - overlap).mean())


TABLES = {"sinusoids": sinusoid_parameters, "snooker": snooker_overlap}


def main() -> None:
    """Run the table that the command line names."""
    run("cresp", TABLES)


if __name__ == "__main__":
    main()
