"""Windows of smartphone motion: what an encoder learns from a dozen simple features, beside the features themselves."""

from __future__ import annotations

import math
import time

import polars as pl
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import eventvec as ev
from eventvec import losses
from eventvec.encoders import TemporalConvolution
from eventvec.methods import ExpCLR
from experiments import data as datasets
from experiments.tables import Row, main, told

SEED, EPOCHS, BATCH, LR = 0, 12, 64, 0.005
LAYERS, WIDTH = 5, 32  # the receptive field, 125 samples, is about a window


class LabelPairs(nn.Module):
    """The pair loss on labels: what the same encoder learns when it sees the answers."""

    def __init__(self, encoder: nn.Module, label: str) -> None:
        super().__init__()
        self.encoder, self.label = encoder, label

    def forward(self, batch: ev.Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean over all pairs of a batch."""
        label = batch.static[self.label]
        return losses.pair_loss(self.encoder(batch), (label[:, None] == label).float(), margin=1.0)


def hapt(small: bool) -> list[Row]:
    """uci_hapt: six activities of nine unseen users (accuracy of 1-nearest-neighbour and of a linear classifier)."""
    learned, unseen, features = _data(small)
    scaled = ExpCLR(_encoder(learned.schema), learned.schema, features)
    rows = [_row("the features alone", [scaled.expert(half.sequences) for half in (learned, unseen)], learned, unseen)]
    untrained = [ev.embed(scaled.encoder, half) for half in (learned, unseen)]
    rows.append(_row("untrained encoder", untrained, learned, unseen))
    methods = {
        "ExpCLR (row mean, Δ auto, τ 1)": lambda encoder: ExpCLR(encoder, learned.schema, features),
        "quadratic (τ ∞)": lambda encoder: ExpCLR(encoder, learned.schema, features, temperature=math.inf),
        "pair loss on labels": lambda encoder: LabelPairs(encoder, "activity"),
    }
    for name, make in methods.items():
        method, begun = make(_encoder(learned.schema)), time.perf_counter()
        epochs = 1 if small else EPOCHS
        ev.fit(method, learned, epochs=epochs, batch_size=BATCH, lr=LR, seed=SEED, progress=told)
        seconds = round(time.perf_counter() - begun)
        z = [ev.embed(method.encoder, half) for half in (learned, unseen)]
        rows.append(_row(name, z, learned, unseen, seconds))
    return rows


def _data(small: bool) -> tuple[ev.Dataset, ev.Dataset, list[str]]:
    """Return the windows of 21 users, on which all scales are fitted, those of the nine others, and the features."""
    events, labels = datasets.uci_hapt_frames()
    labels = labels.filter(pl.col("window") % (20 if small else 1) == 0)
    static = datasets.uci_hapt_features(events).join(labels.select("window", "activity"), on="window")
    train, test = (
        events.join(labels.filter(pl.col("test") == held), on="window", how="semi", maintain_order="left")
        for held in (False, True)
    )
    fitting = ev.Fitting(log=False)
    learned = ev.read(
        train, key="window", time="t", categorical=(), numeric=datasets.HAPT_CHANNELS, static=static, fitting=fitting
    )
    unseen = ev.read(test, schema=learned.schema, static=static)
    return learned, unseen, [name for name in static.columns if name not in ("window", "activity")]


def _encoder(schema: ev.Schema) -> TemporalConvolution:
    torch.manual_seed(SEED)
    return TemporalConvolution(ev.EventEncoder(schema, time=()), layers=LAYERS, width=WIDTH)


def _row(name: str, z: list[Tensor], learned: ev.Dataset, unseen: ev.Dataset, seconds: int | None = None) -> Row:
    """Return the accuracies of two classifiers that are fitted to the labels of the first part, on the second."""
    train, test = (half.sequences.static["activity"] for half in (learned, unseen))
    models = {
        "1-nn": KNeighborsClassifier(1),
        "linear": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    }
    scores = {key: float(model.fit(z[0], train).score(z[1], test)) for key, model in models.items()}
    return {
        "representation": name, "dimensions": z[0].shape[1], "trained on": len(learned), "tested on": len(unseen),
        **scores, "training seconds": "" if seconds is None else seconds,
    }  # fmt: skip


if __name__ == "__main__":
    main("expclr", {"hapt": hapt})
