"""One data set under the paper's protocol: encoders trained once for each arm and seed, and scored side by side.

What was trained lies in the folder that `--keep` names, and is not trained again: run folders for encoders, arrays for
predictions. So tables that share an arm share its training, and a killed run goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eventvec as ev
from eventvec import checkpoint, config, datasets
from eventvec.cli import terminal
from eventvec.encoders.aggregates import aggregate_features
from eventvec.errors import ConfigError
from eventvec.evaluation import join_labels
from eventvec.evaluation.models import lightgbm_settings
from eventvec.methods import Supervised
from eventvec.reporting import map2d
from eventvec.schema import FIRST, Categorical
from eventvec.views import VIEWS
from experiments import data as private
from experiments.coles import arms
from experiments.protocol import PaperResult, PaperSplit, Trainer, paper_protocol, paper_split
from experiments.tables import Row, told

Array = np.ndarray[Any, np.dtype[Any]]
SMALL: config.Table = {"encoder": {"dim": 8}, "fit": {"epochs": 1, "batch_size": 16}}


@dataclass(frozen=True, eq=False)
class Study:
    """A data set, its labels and its split; `keep` holds what was trained on it."""

    name: str
    config: config.Table
    data: ev.Dataset
    split: PaperSplit
    keep: Path
    small: bool

    @staticmethod
    def of(name: str, keep: Path, small: bool) -> Study:
        """Return the study of a data set that has a configuration."""
        chosen = arms.read(name)
        about = {"sets": None, "group": None, **chosen["data"]}
        load = getattr(private if hasattr(private, about["name"]) else datasets, about["name"])
        data, labels = load(about["sets"]) if about["sets"] else load()
        label, group = about["label"], about["group"]
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
        return Study(name, chosen, data, split, keep / (f"{name}-small" if small else name), small)

    def tables(self, arm: str) -> config.Table:
        """Return the configuration of an arm; small, it shows that the arm runs."""
        found = arms.tables(self.config, arm)
        if not self.small:
            return found
        encoder = {**found["encoder"], **({} if "former" in found["encoder"]["name"] else SMALL["encoder"])}
        return {**found, "encoder": encoder, "fit": SMALL["fit"]}

    def run(self, arm: str, seed: int) -> Path:
        """Return the run folder of an arm, trained on the entities of `trained_on`."""
        folder, found = self.keep / f"{arm}-{seed}", self.tables(arm)
        done = folder.exists() and checkpoint.read_info(folder)["finished"]
        if not done:
            print(f"{self.name}: {arm}, seed {seed}", file=sys.stderr, flush=True)
            torch.manual_seed(seed)
            method = config.build_method(found, self.data.schema).to(terminal.device("auto"))
            ev.fit(
                method,
                self.data[torch.from_numpy(self.trained_on())],
                seed=seed,
                out=folder,
                resume=folder.exists(),
                progress=told,
                **found["fit"],
            )
        return folder

    def trained_on(self) -> Array:
        """Return the entities that every arm learns from: none of the test set, and longer than the shortest slice."""
        longer = (self.data.sequences.lengths > self.config["slices"]["shortest"]).numpy()
        return np.flatnonzero(self.split.seen & longer)

    def steps(self, arm: str) -> int | None:
        """Return how many steps the arm's first run took, if it was trained."""
        for folder in sorted(self.keep.glob(f"{arm}-[0-9]*")):
            if (folder / "run.json").exists():
                return int(checkpoint.read_info(folder)["steps"])
        return None

    def embedding(self, arm: str, seed: int) -> Array:
        """Return `(n, dim)` the embeddings of all entities; of arms that train on the unit sphere, of unit length."""
        z = self.raw(arm, seed)
        alike = self.config["data"].get("normalize", True) and arm not in ("rtd", "cpc", "untrained")
        return unit(z) if alike else z

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
        return _save(file, ev.embed(encoder.to(terminal.device("auto")), self.data).numpy())

    def peer(self, seed: int, epochs: int) -> Array:
        """Return `(n, dim)` what pytorch-lifestream's CoLES learns of the same events in as many epochs.

        It gets the columns as eventvec's event encoder sees them: codes, scaled numbers with 0 where missing, and the
        scaled logarithm of the gap; embeddings as wide; the same slices, batches and highest rate.
        """
        folder, x, found = self.keep / f"peer-{seed}", self.data.sequences, self.tables("coles")
        if (folder / "z.npy").exists():
            return np.asarray(np.load(folder / "z.npy"))
        python = Path(__file__).parents[2] / ".venv-peer/bin/python"
        if not python.exists():
            raise ConfigError("pytorch-lifestream is not installed; make its environment: make peer")
        own = ev.EventEncoder(self.data.schema, **found["encoder"].get("events", {})).embeddings
        widths = [int(table.weight.shape[1]) for table in own]  # type: ignore[union-attr]
        fields = dict(zip((field.name for field in self.data.schema.categorical), widths, strict=True))
        whole = x.take(x.flat(), x.lengths)
        columns = {name: whole.columns[name].numpy() for name in fields}
        numbers = {f.name: f.scale(whole.columns[f.name].float()) for f in self.data.schema.numeric}
        numbers["gap"] = self.data.schema.gap.scale(whole.columns["gap"].float())
        columns |= {name: values.nan_to_num(0).numpy() for name, values in numbers.items()}
        (folder / "columns").mkdir(parents=True, exist_ok=True)
        for name, values in {**columns, "event_time": np.arange(whole.total)}.items():
            np.save(folder / "columns" / f"{name}.npy", values)
        np.save(folder / "starts.npy", (whole.lengths.cumsum(0) - whole.lengths).numpy())
        np.save(folder / "lengths.npy", whole.lengths.numpy())
        np.save(folder / "seen.npy", np.isin(np.arange(len(whole)), self.trained_on()))
        embeddings = {name: {"in": int(columns[name].max()) + 1, "out": dim} for name, dim in fields.items()}
        settings = {
            **self.config["slices"], "embeddings": embeddings, "numeric": list(numbers), "dim": found["encoder"]["dim"],
            "epochs": epochs, "batch_size": found["fit"]["batch_size"], "seed": seed,
            "lr": found["fit"].get("lr", terminal.default(ev.fit, "lr")),
        }  # fmt: skip
        (folder / "settings.json").write_text(json.dumps(settings))
        subprocess.run([python, Path(__file__).with_name("peer.py"), folder], check=True)
        return np.asarray(np.load(folder / "z.npy"))

    def aggregates(self) -> Array:
        """Return `(n, k)` the paper's hand-made features."""
        return aggregate_features(self.data)[0]

    def trainer(self, arm: str | None, seed: int) -> Trainer:
        """Return what learns a fold's labels: a trained arm's encoder, tuned; without an arm, a new one, from scratch.

        The paper tunes a smaller model than it embeds with: `[fine_tuning.from]` names that one.
        """
        own = {"from": {}, **self.config["fine_tuning" if arm else "supervised"]}
        options = (
            SMALL["fit"]
            if self.small
            else {k: v for k, v in own.items() if k not in ("from", "encoder", "views", "batch_norm")}
        )

        def train(rows: Array, y: Array, wanted: Array) -> Array:
            mark = hashlib.sha256(rows.tobytes() + wanted.tobytes()).hexdigest()[:12]
            file = self.keep / f"{arm or 'supervised'}-tuned-{seed}-{mark}.npy"
            if file.exists():
                return np.asarray(np.load(file))
            torch.manual_seed(seed)
            labelled = _with_label(self.data, rows, y, len(self.split.target.classes))
            if arm:
                encoder = checkpoint.load(self.run(own["from"].get(arm, arm), seed)).encoder
            else:
                encoder = config.build_encoder(
                    {**self.tables("coles")["encoder"], **own.get("encoder", {})}, labelled.schema
                )
            views = config.build(own["views"], VIEWS, "views") if "views" in own else None
            method = Supervised(encoder, labelled.schema, "label", views, own.get("batch_norm", False))
            ev.fit(method.to(terminal.device("auto")), labelled, seed=seed, validation=0, **options)
            logits = ev.embed(method.predictor, self.data[torch.from_numpy(wanted)]).numpy()
            return _save(file, logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits.argmax(1))

        return train

    def map(self, seed: int) -> Row:
        """Draw the labelled entities' CoLES embeddings in the plane, and return how alike neighbours there are."""
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
        chance = float((np.bincount(y) / len(y)) @ (np.bincount(y) / len(y)))
        alike = float((y[nearest] == y).mean())
        return {
            "data": self.name,
            "entities": len(rows),
            "neighbours alike": alike,
            "chance": chance,
            "page": str(page),
        }

    def scores(self, features: dict[str, Any], fractions: Sequence[float] = (1.0,)) -> PaperResult:
        """Return the paper's protocol's scores of feature sets and trainers, each a list with one entry per seed."""
        boosting = None if self.small else self.config["data"].get("boosting")
        return paper_protocol(
            features, self.split, fractions=fractions, boosting=lightgbm_settings(boosting) if boosting else None,
            num_threads=torch.get_num_threads(),
        )  # fmt: skip


def unit(z: Array) -> Array:
    """Return the rows at length 1."""
    return z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12)


def _with_label(data: ev.Dataset, rows: Array, y: Array, classes: int) -> ev.Dataset:
    """Return the rows with their label as the static column `label`."""
    labelled = data[torch.from_numpy(rows)]
    field = Categorical("label", tuple(str(code) for code in range(classes)))
    static = {**labelled.sequences.static, "label": torch.from_numpy(y.astype(np.int64)) + FIRST}
    schema = replace(data.schema, static=(*data.schema.static, field))
    return ev.Dataset(labelled.keys, replace(labelled.sequences, static=static), schema)


def _save(file: Path, values: Array) -> Array:
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.npy")
    np.save(part, values)
    part.rename(file)
    return values
