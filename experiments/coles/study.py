"""One data set under the paper's protocol: an encoder is trained once per arm and seed, and all of them are scored.

The folder given by `--keep` holds the run folders of trained encoders and the predictions of networks that learned from
labels. Nothing in it is trained again, so tables that share an arm share its training, and a killed run resumes.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eventvec as ev
from eventvec import models
from eventvec.blocks.handcrafted_sets import handcrafted_features
from eventvec.config import Table, build_encoder, build_method
from eventvec.embedding import choose_device
from eventvec.encoders.aggregates import aggregate_features
from eventvec.evaluation.baselines import baselines
from eventvec.models import model_files
from eventvec.reporting import map2d
from eventvec.sequences import Array
from eventvec.training.fit_options import FitOptions
from eventvec.views.sizes import validation_share, window_length
from experiments.coles import arms
from experiments.coles.boosting_settings import lightgbm_settings
from experiments.coles.label_training import budget, scores, train_on_labels, with_label
from experiments.coles.labelled_data import Labelled, load
from experiments.coles.peer_embedding import peer_embedding
from experiments.command_line import Row
from experiments.jobs import side_by_side
from experiments.protocol import PaperResult, PaperSplit, Trainer, paper_protocol

SMALL: Table = {"encoder": {"dim": 8}, "fit": {"epochs": 1, "batch_size": 32}}
SMALL_TRANSFORMER: Table = {**SMALL["encoder"], "layers": 1, "heads": 2, "longest": 50}
SUPERVISED, TUNED, CONTROL = "supervised", ", fine-tuned", "untrained, fine-tuned"
"""Networks that learn from labels: from scratch, from the encoder of an arm, and as the latter with random weights."""


@dataclass(frozen=True, eq=False)
class Study:
    """A data set with its labels and its split; the folder `keep` holds what was trained on it."""

    name: str
    config: Table
    source: Labelled
    keep: Path
    small: bool

    @staticmethod
    def of(name: str, keep: Path, small: bool) -> Study:
        """Return the study of a data set that has a configuration; a small one has 120 labelled entities."""
        settings = arms.read(name)
        return Study(name, settings, load(settings["data"], small), keep / (f"{name}-small" if small else name), small)

    @property
    def data(self) -> ev.Dataset:
        """The histories of all entities."""
        return self.source.data

    @property
    def split(self) -> PaperSplit:
        """The test set and the folds."""
        return self.source.split

    def train(self, compared: Iterable[str], seeds: Sequence[int]) -> None:
        """Train arms with all seeds and embed all entities, side by side; what exists already is left out."""
        todo = [
            (self.name, self.keep.parent, self.small, arm, seed)
            for arm, seed in product(compared, seeds)
            if not self._raw_file(arm, seed).exists()
        ]
        self.side_by_side(_embed, todo)

    def tune(self, networks: Iterable[str], seeds: Sequence[int], fractions: Sequence[float] = (1.0,)) -> None:
        """Train networks on labels with all seeds, folds and shares, side by side; what exists already is left out."""
        todo = [
            (self.name, self.keep.parent, self.small, name, seed, fraction, fold)
            for name, seed, fraction in product(networks, seeds, fractions)
            for fold, rows in enumerate(self.split.training_parts(fraction))
            if not self._tuned_file(name, seed, rows).exists()
        ]
        self.side_by_side(_tune, todo)

    def side_by_side(self, function: Any, todo: list[Any]) -> None:
        """Call a function with the arguments of each job, in processes if the study is not small."""
        if self.small:
            for job in todo:
                function(*job)
        elif todo:
            side_by_side(function, todo)

    def tables(self, arm: str) -> Table:
        """Return the configuration of an arm, in a small study with a narrow encoder and one epoch.

        Windows of OCP have the length that `eventvec fit` gives them, which follows from the data.
        """
        tables = arms.tables(self.config, arm)
        if tables["method"]["name"] == "ocp":
            tables["method"]["length"] = window_length(self.data.sequences)
        if not self.small:
            return tables
        narrow = SMALL_TRANSFORMER if "transformer" in tables["encoder"]["name"] else SMALL["encoder"]
        return {**tables, "encoder": {**tables["encoder"], **narrow}, "fit": SMALL["fit"]}

    def is_arm(self, name: str) -> bool:
        """Return whether a name is that of an arm, not that of features or of a network that learns from labels."""
        return name in arms.ARMS or name.startswith("dim=") or name in self.config.get("arms", {})

    def trained_as(self, arm: str) -> str:
        """Return `coles` for an arm with the settings of CoLES, such as its encoder in Table 6, otherwise the arm."""
        return "coles" if self.is_arm(arm) and self.tables(arm) == self.tables("coles") else arm

    def run(self, arm: str, seed: int) -> Path:
        """Return the run folder of an arm, trained on the entities of `trained_on`."""
        arm = self.trained_as(arm)
        folder, tables = self.keep / f"{arm}-{seed}", self.tables(arm)
        finished = folder.exists() and model_files.read_info(folder)["finished"]
        if not finished:
            print(f"{self.name}: {arm}, seed {seed}", file=sys.stderr, flush=True)
            torch.manual_seed(seed)
            method = build_method(tables, self.data.schema).to(choose_device("auto"))
            rows = self.data[torch.from_numpy(self.trained_on())]
            ev.fit(rows, method=method, seed=seed, out=folder, resume=folder.exists(), **tables["fit"])
        return folder

    def trained_on(self) -> Array:
        """Return the entities that arms are trained on: outside the test set, and longer than the shortest slice."""
        longer = (self.data.sequences.lengths > self.config["slices"]["shortest"]).numpy()
        return np.flatnonzero(self.split.seen & longer)

    def steps(self, arm: str) -> int | None:
        """Return the number of steps of the arm's first run, None if there is no run."""
        for folder in sorted(self.keep.glob(f"{self.trained_as(arm)}-[0-9]*")):
            if (folder / "model.json").exists():
                return int(model_files.read_info(folder)["steps"])
        return None

    def views(self, arm: str) -> tuple[ev.Sequences, torch.Tensor]:
        """Return the views of an arm on one pass over the entities that it is trained on, and the entity of each.

        Methods without views read whole histories. For pairs, the second tensor has their labels.
        """
        x = self.data[torch.from_numpy(self.trained_on())].sequences
        method = build_method(self.tables(arm), self.data.schema)
        sampler = getattr(method, "views", getattr(method, "pairs", None))
        if sampler is None:
            return x, torch.arange(len(x))
        views, source = sampler(x, torch.Generator().manual_seed(0))
        return views, source

    def events(self, arm: str) -> int | None:
        """Return the number of events that the encoder of an arm reads in training, by one pass over its views.

        None for what is no arm with a number of epochs.
        """
        if not self.is_arm(arm):
            return None
        fit = self.tables(arm)["fit"]
        share = 1 - fit.get("validation", FitOptions().validation)
        return round(float(fit["epochs"] * share * self.views(arm)[0].total))

    def embedding(self, arm: str, seed: int) -> Array:
        """Return `(n, dim)` the embeddings of all entities at unit length."""
        return unit(self.raw(arm, seed))

    def raw(self, arm: str, seed: int) -> Array:
        """Return `(n, dim)` the embeddings of all entities as they leave the encoder."""
        file = self._raw_file(arm, seed)
        if file.exists():
            return np.asarray(np.load(file))
        if arm == "untrained":
            encoder = self.new_encoder({}, self.data.schema, seed)
        else:
            encoder = models.load(self.run(arm, seed)).encoder
        return save(file, ev.encode(encoder.to(choose_device("auto")), self.data.sequences).numpy())

    def peer(self, seed: int, epochs: int) -> Array:
        """Return `(n, dim)` the embeddings of pytorch-lifestream's CoLES, trained on the same events.

        The embedding size, the slices, the batches and the highest learning rate are the same.
        """
        tables = self.tables("coles")
        settings = {
            **self.config["slices"], "dim": tables["encoder"]["dim"], "epochs": epochs, "seed": seed,
            "batch_size": tables["fit"]["batch_size"], "lr": tables["fit"].get("lr", FitOptions.lr),
        }  # fmt: skip
        events = tables["encoder"].get("events", {})
        return peer_embedding(self.data, self.trained_on(), settings, self.keep / f"peer-{seed}", **events)

    def opponents(self, seeds: Sequence[int]) -> dict[str, list[Array]]:
        """Return the features that need no training, by name, one element per seed where weights are random."""
        untrained = [baselines(self.data, seed) for seed in seeds]
        sets = {
            "event count": [untrained[0]["event_count"]],
            "untrained event mean": [each["untrained"] for each in untrained],
            "aggregates": [aggregate_features(self.data)[0]],
            "hand-crafted": [handcrafted_features(self.data)[0]],
        }
        return sets if self.source.oracle is None else {"oracle": [self.source.oracle], **sets}

    def trainer(self, name: str, seed: int) -> Trainer:
        """Return a trainer that learns from labels: `supervised`, or one that fine-tunes the encoder of an arm.

        The paper fine-tunes a smaller model than it embeds with; `[fine_tuning.from]` names its arm.
        """
        settings = {"from": {}, **self.config[SUPERVISED if name == SUPERVISED else "fine_tuning"]}
        if self.small:
            settings |= SMALL["fit"]
        if name == CONTROL:
            settings.pop("encoder_lr", None)  # a lower rate protects what was learned, and it has learned nothing

        def train(rows: Array, y: Array, predicted: Array) -> Array:
            file = self._tuned_file(name, seed, rows)
            if file.exists():
                return np.asarray(np.load(file))
            labelled = with_label(self.data, rows, y, len(self.split.target.classes))
            if name in (SUPERVISED, CONTROL):
                encoder = self.new_encoder(settings.get("encoder", {}), labelled.schema, seed)
            else:
                arm = name.removesuffix(TUNED)
                encoder = models.load(self.run(settings["from"].get(arm, arm), seed)).encoder
            before = (self.events("coles") or 0) if name == SUPERVISED and "epochs" not in settings else 0
            trained_on = round((1 - validation_share(len(rows))) * self._total(rows))
            bounds = budget(settings, trained_on, self._total(self.split.folds[0][0]), before)
            method = train_on_labels(encoder.to(choose_device("auto")), labelled, settings, bounds, seed)
            return save(file, scores(method, self.data[torch.from_numpy(predicted)]))

        return train

    def new_encoder(self, settings: Table, schema: ev.Schema, seed: int) -> Any:
        """Return the encoder of the study with random weights."""
        torch.manual_seed(seed)
        return build_encoder({**self.tables("coles")["encoder"], **settings}, schema)

    def _total(self, rows: Array) -> int:
        """Return the number of events of some entities."""
        return int(self.data.sequences.lengths[torch.from_numpy(rows)].sum())

    def _raw_file(self, arm: str, seed: int) -> Path:
        return self.keep / f"{self.trained_as(arm)}-{seed}-raw.npy"

    def _tuned_file(self, name: str, seed: int, rows: Array) -> Path:
        mark = hashlib.sha256(rows.tobytes()).hexdigest()[:12]
        return self.keep / f"{name.replace(', ', '-')}-{seed}-{mark}.npy"

    def map(self, seed: int) -> Row:
        """Write a map of the labelled entities' CoLES embeddings, and return how often neighbours share their label."""
        from matplotlib.figure import Figure
        from sklearn.neighbors import NearestNeighbors

        rows, y = self.split.target.rows[:5000], self.split.target.y[:5000]
        points = map2d(self.embedding("coles", seed)[rows], seed)
        nearest = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points, return_distance=False)[:, 1]
        picture = self.keep / f"figure7-{seed}.png"
        self.keep.mkdir(parents=True, exist_ok=True)
        figure = Figure(figsize=(9, 9), layout="constrained")
        axes = figure.subplots()
        for code, value in enumerate(self.split.target.classes):
            axes.scatter(*points[y == code].T, s=4, label=str(value))
        axes.set_title(f"{self.name}: CoLES embeddings, t-SNE")
        axes.legend()
        figure.savefig(picture)
        shares = np.bincount(y) / len(y)
        return {
            "data": self.name,
            "entities": len(rows),
            "neighbours alike": float((y[nearest] == y).mean()),
            "chance": float(shares @ shares),
            "picture": str(picture),
        }

    def scores(self, features: dict[str, Any], fractions: Sequence[float] = (1.0,)) -> PaperResult:
        """Return the scores of feature sets and trainers, each a list with one element per seed, under the protocol."""
        boosting = "small" if self.small else self.config["data"].get("boosting")
        return paper_protocol(
            features, self.split, fractions=fractions, boosting=lightgbm_settings(boosting) if boosting else None,
            num_threads=os.cpu_count(),
        )  # fmt: skip


@lru_cache(maxsize=1)
def kept(name: str, keep: Path, small: bool) -> Study:
    """Return a study; a process that has several jobs of one data set reads it once."""
    return Study.of(name, keep, small)


def _embed(name: str, keep: Path, small: bool, arm: str, seed: int) -> None:
    kept(name, keep, small).raw(arm, seed)


def _tune(name: str, keep: Path, small: bool, network: str, seed: int, fraction: float, fold: int) -> None:
    study = kept(name, keep, small)
    rows, left_out = study.split.training_parts(fraction)[fold], study.split.folds[fold][1]
    study.trainer(network, seed)(rows, study.split.labels(rows), np.concatenate([left_out, study.split.test]))


def unit(z: Array) -> Array:
    """Return the rows, each divided by its length."""
    return np.asarray(z / np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-12))


def save(file: Path, values: Array) -> Array:
    """Return the values after writing them to a file, which appears whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.npy")
    np.save(part, values)
    part.rename(file)
    return values
