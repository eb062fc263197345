"""ExpCLR on windows of smartphone motion: an encoder trained on twelve simple features, beside these features."""

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
from experiments.command_line import Row, print_epoch, run

SEED, EPOCHS, BATCH_SIZE, LEARNING_RATE = 0, 12, 64, 0.005
LAYERS, WIDTH = 5, 32  # the receptive field is 125 samples, about one window


class LabelPairs(nn.Module):
    """The pair loss on labels: what the same encoder learns with supervision."""

    def __init__(self, encoder: nn.Module, label: str) -> None:
        super().__init__()
        self.encoder, self.label = encoder, label

    def forward(self, batch: ev.Sequences, rng: torch.Generator) -> Tensor:
        """Return the mean loss of all pairs in a batch."""
        label = batch.static[self.label]
        return losses.pair_loss(self.encoder(batch), (label[:, None] == label).float(), margin=1.0, hinge="squared")


def hapt(small: bool) -> list[Row]:
    """uci_hapt: six activities of nine unseen users (accuracy of 1-nearest-neighbour and of a linear classifier)."""
    training, test, features = _data(small)
    scaled = ExpCLR(_encoder(training.schema), training.schema, features)
    expert = [scaled.expert(part.sequences) for part in (training, test)]
    rows = [_row("the features alone", expert, training, test)]
    untrained = [ev.encode(scaled.encoder, part.sequences) for part in (training, test)]
    rows.append(_row("untrained encoder", untrained, training, test))
    methods = {
        "ExpCLR (row mean, Δ auto, τ 1)": lambda encoder: ExpCLR(encoder, training.schema, features),
        "quadratic (τ ∞)": lambda encoder: ExpCLR(encoder, training.schema, features, temperature=math.inf),
        "pair loss on labels": lambda encoder: LabelPairs(encoder, "activity"),
    }
    for name, make in methods.items():
        method, start = make(_encoder(training.schema)), time.perf_counter()
        ev.fit(
            method, training, epochs=1 if small else EPOCHS, batch_size=BATCH_SIZE, lr=LEARNING_RATE, seed=SEED,
            progress=print_epoch,
        )  # fmt: skip
        seconds = round(time.perf_counter() - start)
        z = [ev.encode(method.encoder, part.sequences) for part in (training, test)]
        rows.append(_row(name, z, training, test, seconds))
    return rows


def _data(small: bool) -> tuple[ev.Dataset, ev.Dataset, list[str]]:
    """Return the windows of 21 users, to which all scales are fitted, those of the other nine, and the features."""
    events, labels = datasets.uci_hapt_frames()
    labels = labels.filter(pl.col("window") % (40 if small else 1) == 0)
    static = datasets.uci_hapt_features(events).join(labels.select("window", "activity"), on="window")
    train, test = (
        events.join(labels.filter(pl.col("test") == in_test), on="window", how="semi", maintain_order="left")
        for in_test in (False, True)
    )
    fitting = ev.Fitting(log=False)
    training = ev.read(
        train, key="window", time="t", categorical=(), numeric=datasets.HAPT_CHANNELS, static=static, fitting=fitting
    )
    unseen = ev.read(test, schema=training.schema, static=static)
    return training, unseen, [name for name in static.columns if name not in ("window", "activity")]


def _encoder(schema: ev.Schema) -> TemporalConvolution:
    torch.manual_seed(SEED)
    return TemporalConvolution(ev.encoders.EventEncoder(schema, time=()), layers=LAYERS, width=WIDTH)


def _row(name: str, z: list[Tensor], training: ev.Dataset, test: ev.Dataset, seconds: int | None = None) -> Row:
    """Return the test accuracies of two classifiers that are fitted to the labels of the training windows."""
    y_train, y_test = (part.sequences.static["activity"] for part in (training, test))
    models = {
        "1-nn": KNeighborsClassifier(1),
        "linear": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    }
    scores = {key: float(model.fit(z[0], y_train).score(z[1], y_test)) for key, model in models.items()}
    return {
        "representation": name, "dimensions": z[0].shape[1], "trained on": len(training), "tested on": len(test),
        **scores, "training seconds": "" if seconds is None else seconds,
    }  # fmt: skip


TABLES = {"hapt": hapt}


def main() -> None:
    """Run the table that the command line names."""
    run("expclr", TABLES)


if __name__ == "__main__":
    main()
