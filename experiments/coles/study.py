"""One data set under the paper's protocol: an encoder is trained once per arm and seed, and all of them are scored.

The folder given by `--keep` holds the run folders of trained encoders and the predictions of trainers. Nothing in it is
trained again, so tables that share an arm share its training, and a killed run resumes.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eventvec as ev
from eventvec import checkpoint, config, datasets, run_files
from eventvec.cli import terminal
from eventvec.embedding import choose_device
from eventvec.encoders.aggregates import aggregate_features
from eventvec.evaluation import join_labels
from eventvec.methods import Supervised
from eventvec.reporting import map2d
from eventvec.schema import FIRST, Categorical
from eventvec.views import VIEWS
from experiments import data as private
from experiments.coles import arms
from experiments.coles.boosting_settings import lightgbm_settings
from experiments.coles.peer_embedding import peer_embedding
from experiments.command_line import Row, print_epoch
from experiments.protocol import PaperResult, PaperSplit, Trainer, paper_protocol, paper_split

Array = np.ndarray[Any, np.dtype[Any]]
SMALL: config.Table = {"encoder": {"dim": 8}, "fit": {"epochs": 1, "batch_size": 16}}
SMALL_TRANSFORMER: config.Table = {**SMALL["encoder"], "layers": 1, "heads": 2, "longest": 50}


@dataclass(frozen=True, eq=False)
class Study:
    """A data set with its labels and its split; the folder `keep` holds what was trained on it."""

    name: str
    config: config.Table
    data: ev.Dataset
    split: PaperSplit
    keep: Path
    small: bool

    @staticmethod
    def of(name: str, keep: Path, small: bool) -> Study:
        """Return the study of a data set that has a configuration; a small one has 240 labelled entities."""
        settings = arms.read(name)
        source = {"sets": None, "group": None, **settings["data"]}
        load = getattr(private if hasattr(private, source["name"]) else datasets, source["name"])
        data, labels = load(source["sets"]) if source["sets"] else load()
        label, group = source["label"], source["group"]
        labels = labels.drop_nulls(label)
        joined = join_labels(data.keys, data.schema.key, labels, label, group=group)
        if small:
            data = data[torch.from_numpy(joined.positions[:240])]
            joined = join_labels(data.keys, data.schema.key, labels, label, group=group)
        values, groups = np.full(len(data), None, dtype=object), np.arange(len(data)).astype(str).astype(object)
        values[joined.positions] = joined.labels
        if joined.groups is not None:
            groups[joined.positions] = [f"group {value}" for value in joined.groups]
        folds = 2 if small else 5
        split = paper_split(values, folds=folds, groups=groups if group else None, label=label)
        return Study(name, settings, data, split, keep / (f"{name}-small" if small else name), small)

    def tables(self, arm: str) -> config.Table:
        """Return the configuration of an arm, in a small study with a narrow encoder and one epoch."""
        tables = arms.tables(self.config, arm)
        if not self.small:
            return tables
        narrow = SMALL_TRANSFORMER if "transformer" in tables["encoder"]["name"] else SMALL["encoder"]
        return {**tables, "encoder": {**tables["encoder"], **narrow}, "fit": SMALL["fit"]}

    def run(self, arm: str, seed: int) -> Path:
        """Return the run folder of an arm, trained on the entities of `trained_on`."""
        folder, tables = self.keep / f"{arm}-{seed}", self.tables(arm)
        finished = folder.exists() and run_files.read_info(folder)["finished"]
        if not finished:
            print(f"{self.name}: {arm}, seed {seed}", file=sys.stderr, flush=True)
            torch.manual_seed(seed)
            method = config.build_method(tables, self.data.schema).to(choose_device("auto"))
            ev.fit(
                method,
                self.data[torch.from_numpy(self.trained_on())],
                seed=seed,
                out=folder,
                resume=folder.exists(),
                progress=print_epoch,
                **tables["fit"],
            )
        return folder

    def trained_on(self) -> Array:
        """Return the entities that arms are trained on: outside the test set, and longer than the shortest slice."""
        longer = (self.data.sequences.lengths > self.config["slices"]["shortest"]).numpy()
        return np.flatnonzero(self.split.seen & longer)

    def steps(self, arm: str) -> int | None:
        """Return the number of steps of the arm's first run, None if there is no run."""
        for folder in sorted(self.keep.glob(f"{arm}-[0-9]*")):
            if (folder / "run.json").exists():
                return int(run_files.read_info(folder)["steps"])
        return None

    def embedding(self, arm: str, seed: int) -> Array:
        """Return `(n, dim)` the embeddings of all entities, at unit length for arms that train on the unit sphere."""
        z = self.raw(arm, seed)
        normalized = self.config["data"].get("normalize", True) and arm not in ("rtd", "cpc", "untrained")
        return unit(z) if normalized else z

    def raw(self, arm: str, seed: int) -> Array:
        """Return `(n, dim)` the embeddings of all entities as they leave the encoder."""
        file = self.keep / f"{arm}-{seed}-raw.npy"
        if file.exists():
            return np.asarray(np.load(file))
        if arm == "untrained":
            torch.manual_seed(seed)
            encoder = config.build_encoder(self.tables("coles")["encoder"], self.data.schema)
        else:
            encoder = checkpoint.load(self.run(arm, seed)).encoder
        return _save(file, ev.encode(encoder.to(choose_device("auto")), self.data.sequences).numpy())

    def peer(self, seed: int, epochs: int) -> Array:
        """Return `(n, dim)` the embeddings of pytorch-lifestream's CoLES, trained on the same events.

        The embedding size, the slices, the batches and the highest learning rate are the same.
        """
        tables = self.tables("coles")
        settings = {
            **self.config["slices"], "dim": tables["encoder"]["dim"], "epochs": epochs, "seed": seed,
            "batch_size": tables["fit"]["batch_size"], "lr": tables["fit"].get("lr", terminal.default(ev.fit, "lr")),
        }  # fmt: skip
        events = tables["encoder"].get("events", {})
        return peer_embedding(self.data, self.trained_on(), settings, self.keep / f"peer-{seed}", **events)

    def aggregates(self) -> Array:
        """Return `(n, k)` the paper's hand-crafted features."""
        return aggregate_features(self.data)[0]

    def trainer(self, arm: str | None, seed: int) -> Trainer:
        """Return a trainer that fine-tunes an arm's encoder, or trains a new one from scratch if `arm` is None.

        The paper fine-tunes a smaller model than it embeds with; `[fine_tuning.from]` names its arm.
        """
        settings = {"from": {}, **self.config["fine_tuning" if arm else "supervised"]}
        options = (
            SMALL["fit"]
            if self.small
            else {k: v for k, v in settings.items() if k not in ("from", "encoder", "views", "batch_norm")}
        )

        def train(rows: Array, y: Array, predicted: Array) -> Array:
            mark = hashlib.sha256(rows.tobytes() + predicted.tobytes()).hexdigest()[:12]
            file = self.keep / f"{arm or 'supervised'}-tuned-{seed}-{mark}.npy"
            if file.exists():
                return np.asarray(np.load(file))
            torch.manual_seed(seed)
            labelled = _with_label(self.data, rows, y, len(self.split.target.classes))
            if arm:
                encoder = checkpoint.load(self.run(settings["from"].get(arm, arm), seed)).encoder
            else:
                encoder = config.build_encoder(
                    {**self.tables("coles")["encoder"], **settings.get("encoder", {})}, labelled.schema
                )
            views = config.build(settings["views"], VIEWS, "views") if "views" in settings else None
            method = Supervised(encoder, labelled.schema, "label", views, settings.get("batch_norm", False))
            ev.fit(method.to(choose_device("auto")), labelled, seed=seed, validation=0, **options)
            logits = ev.encode(method.predictor, self.data[torch.from_numpy(predicted)].sequences).numpy()
            return _save(file, logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits.argmax(1))

        return train

    def map(self, seed: int) -> Row:
        """Write a map of the labelled entities' CoLES embeddings, and return how often neighbours share their label."""
        import plotly.graph_objects as go
        from sklearn.neighbors import NearestNeighbors

        rows, y = self.split.target.rows[:5000], self.split.target.y[:5000]
        points = map2d(self.embedding("coles", seed)[rows], seed)
        nearest = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points, return_distance=False)[:, 1]
        traces = [
            go.Scattergl(x=points[y == code, 0], y=points[y == code, 1], mode="markers", name=str(value), marker_size=4)
            for code, value in enumerate(self.split.target.classes)
        ]
        page = self.keep / f"figure7-{seed}.html"
        self.keep.mkdir(parents=True, exist_ok=True)
        go.Figure(traces).update_layout(title=f"{self.name}: CoLES embeddings, t-SNE").write_html(page)
        shares = np.bincount(y) / len(y)
        return {
            "data": self.name,
            "entities": len(rows),
            "neighbours alike": float((y[nearest] == y).mean()),
            "chance": float(shares @ shares),
            "page": str(page),
        }

    def scores(self, features: dict[str, Any], fractions: Sequence[float] = (1.0,)) -> PaperResult:
        """Return the scores of feature sets and trainers, each a list with one element per seed, under the protocol."""
        boosting = None if self.small else self.config["data"].get("boosting")
        return paper_protocol(
            features, self.split, fractions=fractions, boosting=lightgbm_settings(boosting) if boosting else None,
            num_threads=torch.get_num_threads(),
        )  # fmt: skip


def unit(z: Array) -> Array:
    """Return the rows, each divided by its length."""
    return z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)


def _with_label(data: ev.Dataset, rows: Array, y: Array, classes: int) -> ev.Dataset:
    """Return some entities with their labels as the static column `label`."""
    labelled = data[torch.from_numpy(rows)]
    field = Categorical("label", tuple(str(code) for code in range(classes)))
    static = {**labelled.sequences.static, "label": torch.from_numpy(y.astype(np.int64)) + FIRST}
    schema = replace(data.schema, static=(*data.schema.static, field))
    return ev.Dataset(labelled.keys, replace(labelled.sequences, static=static), schema)


def _save(file: Path, values: Array) -> Array:
    """Return the values after writing them to a file, which appears whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.npy")
    np.save(part, values)
    part.rename(file)
    return values
