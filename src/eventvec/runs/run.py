"""A run: a trained method with its schema and configuration, in memory or as a folder of plain files.

The folder holds the configuration, the schema, the weights, the metrics, the origin and a model card. Nothing is
pickled: weights are safetensors, and the rest is TOML, JSON and Markdown, so loading never executes code. Files
have mode 0600 and are written whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import nn

from eventvec.config import Table
from eventvec.dataset import Dataset, text_column
from eventvec.embedding import Progress, embed, encode
from eventvec.encoders import Encoder, Joined
from eventvec.encoders.beside import Beside
from eventvec.encoders.interface import Lineage, attach_lineage
from eventvec.errors import CheckpointError, ConfigError, DataError, shown
from eventvec.files import path_only, write_text
from eventvec.methods.declarations import Method, declared
from eventvec.options import accepts, gather
from eventvec.precision import Precision
from eventvec.runs.building import PREFIX, build, build_beside, build_untrained, refusing_damage, tensors_beside
from eventvec.runs.model_card import render_card
from eventvec.runs.run_files import (
    check_parts,
    is_half_saved,
    read_config,
    read_finished,
    read_schema,
    read_tensors,
    write_first,
    write_tensors,
    writer,
)
from eventvec.schema import Schema
from eventvec.sequences import Sequences
from eventvec.tables import Embeddings, attach_known, read
from eventvec.tables.read_options import Cuts, Storage, TableFormat
from eventvec.tables.sources import Tabular, events_table

LEARNED = "learned"
"""The name of the trained encoder among the parts of a run's vectors."""
Record = dict[str, float | int | None]
"""The course of training after a step or an epoch, see `Run.history`."""


@dataclass(frozen=True, eq=False)
class Run:
    """A trained method with its schema, its configuration and the record of its training. `fit` and `load` return it.

    Args:
        method: The method with its trained weights.
        schema: What the columns of the events mean, with the static columns that the method learned from.
        config: The tables `encoder`, `method`, `data` and `fit`, from which the run can be repeated; empty for a run in
            memory whose method has no name in configurations.
        info: The content of `run.json`: `id`, `seed`, data `fingerprint`, library `versions`, counts, the results of
            training, and whether it has `finished`. `kept_epoch` is the epoch of the weights, if it was chosen, and
            `temperatures` has the number by which `predict` divides the logits of a label. If the method tries several
            settings, `tried` has the validation loss of each, and `chosen` is the one of this run. For this run and
            all before it that trained its encoder, `labels` and `holdouts`, see `lineage.Lineage`. A run of features
            has the arguments of its parts in `features`.
        path: The run folder; None for a run in memory.
        notes: Sentences about what was counted or left out.
        beside: The encoders without weights whose vectors stand beside the learned one, by name; see
            `FitOptions.beside`.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, 2, 1, 2], "paid": [0.5, 1.0, 2.0, 3.0]})
        >>> run = ev.fit("ocp", ev.read(events, key="card", time="day", numeric=["paid"]), epochs=1)
        >>> run.schema.key, run.stopped, run.embed(events).shape
        ('card', 'epochs', (2, 32))
    """

    method: Method
    schema: Schema
    config: Table
    info: Mapping[str, Any]
    path: Path | None = None
    notes: tuple[str, ...] = ()
    beside: Mapping[str, Beside] = field(default_factory=dict)

    def __repr__(self) -> str:
        place = f" in {self.path}" if self.path else ""
        return f"Run({self.id}{place}, {type(self.method).__name__}, {self.steps:,} steps)"

    @property
    def id(self) -> str:
        """The random name of the run; embeddings and entity states carry it."""
        return str(self.info["id"])

    @property
    def encoder(self) -> Encoder:
        """The encoder of the run's vectors: `method.encoder`, which was trained, with the parts of `beside` if any."""
        return self._joined if self.beside else self.method.encoder

    @cached_property
    def _joined(self) -> Joined:
        return Joined({LEARNED: self.method.encoder, **self.beside})

    @property
    def lineage(self) -> Lineage:
        """What the encoder was trained on, in this run and those before it."""
        path = str(self.path) if self.path else None
        info = self.info
        samples, data = info.get("label_samples", {}), info.get("data", {})
        return Lineage(self.id, tuple(info["labels"]), tuple(info["holdouts"]), path, samples, data)

    @property
    def history(self) -> tuple[Record, ...]:
        """One record per epoch.

        Each has `epoch`, `step`, `loss` (the mean over its steps), `validation` (or None), `lr`, `seconds` (since the
        start, earlier sessions of a resumed run included), `events_per_second`, and `share`, the share of the bound
        that is used up. If the method declares a score, each has it too: `validation_mrr` (or None) for
        `tpp_embedding`.
        """
        return tuple(self.info["history"])

    @property
    def kept_epoch(self) -> int | None:
        """The number of the epoch whose weights the run has, the best in validation; None for the last."""
        return self.info.get("kept_epoch")

    @property
    def steps(self) -> int:
        """The number of optimizer steps; 0 for a run that was put together without training."""
        return int(self.info.get("steps", 0))

    @property
    def seconds(self) -> float:
        """The time that training took, earlier sessions of a resumed run included."""
        return float(self.info["seconds"])

    @property
    def stopped(self) -> str:
        """What ended the training: `epochs`, `time` or `early stopping`."""
        return str(self.info["stopped"])

    @property
    def usable(self) -> int:
        """The number of entities that could be used, those held out for validation included."""
        return int(self.info["usable"])

    @accepts(Cuts, TableFormat, Storage)
    def read(
        self,
        events: Dataset | Tabular | Sequence[Mapping[str, Any]],
        *,
        static: Tabular | None = None,
        **options: Any,
    ) -> Dataset:
        """Return events, coded by the run's schema.

        Args:
            events: A table, as `read` takes it; a list of events as dictionaries; or a data set that was read by the
                run's schema. Dictionaries without the key are the events of one entity, whose key is 0.
            static: A table with the key and the static columns from which the run predicts, if it was trained with
                `static_inputs`; its other columns are not read.
            options: The fields of `tables.read_options.Cuts` (until, cutoffs, cutoff_column) and `TableFormat`
                (time_format, order, ties, explode, key_as, decimal).

        Raises:
            ConfigError: If there is no such option, or the options contradict one another.
            DataError: If the events cannot be used, or were read by another schema.
        """
        gather(options, Cuts, TableFormat, Storage)  # `read` accepts further options, which the schema decides here
        options = {name: value for name, value in options.items() if value is not None}
        if isinstance(events, Dataset):
            if options:
                raise ConfigError(f"{next(iter(options))} applies to a table, but the events are a data set already")
            self.check_schema(events.schema)
            return events if static is None else self._with_inputs(events, static)
        if isinstance(events, list | tuple):
            events = events_table(events, self.schema.key)
        data = read(events, schema=self.schema, **options)
        return data if static is None else self._with_inputs(data, static)

    def _with_inputs(self, data: Dataset, static: Tabular) -> Dataset:
        """Return the data with the static columns from which the run predicts."""
        names = declared(self.method).static_inputs
        if not names:
            raise ConfigError(
                f"run {self.id} was not trained with static_inputs, and reads no static columns; leave out "
                "static= (--static)"
            )
        others = [field for field in data.schema.static if field.name not in names]
        inputs = [self.schema.static_field(name) for name in names]
        coded = replace(data, schema=replace(data.schema, static=(*others, *inputs)))
        return attach_known(coded, static, names)

    def check_inputs(self, data: Dataset) -> None:
        """Raise an error for data without the static columns from which the run predicts, coded by its schema.

        Raises:
            DataError: If a column is absent or was coded by another schema.
        """
        names = declared(self.method).static_inputs
        if absent := [name for name in names if name not in data.sequences.static]:
            raise DataError(
                f"the run predicts from the events and the static columns {', '.join(map(shown, names))}, and the data "
                f"have no {shown(absent[0])}; give a table with these columns: static= (--static)"
            )
        for name in names:
            if data.schema.static_field(name) != self.schema.static_field(name):
                raise DataError(
                    f"the static column {shown(name)} was coded by another schema than the run's; read the events and "
                    "the column by the run's: run.read(..., static=...)"
                )

    @accepts(Cuts, TableFormat, Storage)
    def embed(
        self,
        events: Dataset | Tabular | Sequence[Mapping[str, Any]],
        *,
        normalize: bool = False,
        precision: Precision = "float32",
        threads: int | None = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> Embeddings:
        """Return the embedding of each entity.

        Args:
            events: The events, as for `Run.read`.
            normalize: Whether each embedding is scaled to length 1.
            precision: The precision of matrix products, see `embedding.encode`.
            threads: The number of threads of the CPU, by default one for small models.
            progress: Called with the number of entities done and of all entities.
            options: As for `Run.read`.

        Raises:
            ConfigError: If there is no such option, or the options contradict one another.
            DataError: If the events cannot be used, or an embedding is not finite.
        """
        data = self.read(events, **options)
        return embed(self.encoder, data, normalize=normalize, precision=precision, threads=threads, progress=progress)

    def embed_texts(self, texts: Sequence[str], *, normalize: bool = False) -> np.ndarray:
        """Return `(n, dim)` float32, the embedding of each text, in the space of the histories' embeddings.

        Args:
            texts: Sentences, such as the query of a search by description.
            normalize: Whether each embedding is scaled to length 1.

        Raises:
            ConfigError: If the method embeds no descriptions, `beside` gives the histories another space, or the texts
                are not a list of texts.
            DataError: If a text has no words.
        """
        tower = declared(self.method).text
        if tower is None:
            raise ConfigError(
                f"run {self.id} was trained by {type(self.method).__name__}, which embeds no texts; a run of "
                "tpp_embedding does"
            )
        if self.beside:
            raise ConfigError(
                f"the vectors of run {self.id} have parts beside the learned one, {', '.join(self.beside)}, and "
                "texts compare with the learned part only; train it without beside"
            )
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"texts must be a list of texts, got {shown(texts)}")
        if empty := [place for place, text in enumerate(texts) if not text.strip()]:
            raise DataError(f"text {empty[0]} (from 0) has no words; a text must have at least one")
        none = torch.zeros(len(texts), dtype=torch.int64)
        column = text_column(pa.array(texts, pa.string()))
        z = encode(tower, Sequences({}, none, none, {tower.column: column}))
        return (nn.functional.normalize(z, dim=1) if normalize else z).cpu().numpy()

    def save(self, path: Path | str) -> Run:
        """Write a run that is in memory to a folder, as `fit` with `out` writes it, and return it with its path.

        Args:
            path: The run folder; it must be new or empty, or hold what a call that was killed has left.

        Raises:
            ConfigError: If the method has no name in configurations, so the folder could not be loaded.
            CheckpointError: If the folder holds files already, or another process writes it.
        """
        folder = path_only(path)
        if not self.config and "features" not in self.info:
            raise ConfigError(
                f"the method {type(self.method).__name__} of run {self.id} has no name in configurations, so its "
                "folder could not be loaded; put the method together from the parts of eventvec"
            )
        with writer(folder):
            if (folder / "run.json").exists() and not is_half_saved(folder):
                raise CheckpointError(f"{folder} holds a run already; choose a new folder")
            write_first(folder, self.config, self.schema, {**self.info, "finished": False})
            write_text(folder / "metrics.jsonl", "".join(json.dumps(record) + "\n" for record in self.history))
            return finish(replace(self, path=folder))

    def check_schema(self, schema: Schema) -> None:
        """Raise an error for events that were not coded by the run's schema.

        Raises:
            DataError: If the schema codes events differently from the run's.
        """
        if different := schema.difference(self.schema):
            raise DataError(
                f"the events were read by another schema than the run's; the two differ in {different}; read them "
                "by the run's: run.read(...), or read(..., schema=run.schema)"
            )


def check_run(run: Any) -> None:
    """Raise an error for the path of a run, or an encoder, where a run is needed.

    Raises:
        ConfigError: If it is not a `Run`.
    """
    if not isinstance(run, Run):
        raise ConfigError(f"the run must be a Run, got {type(run).__name__}; load it first: run = ev.load(path)")


def finish(run: Run) -> Run:
    """Return a trained run, marked as finished; write its weights and model card if it has a folder."""
    done = replace(run, info={**run.info, "finished": True})
    attach_lineage(done.method.encoder, done.lineage)
    if (path := done.path) is not None:
        tensors = {**done.method.state_dict(), **tensors_beside(done.beside)}
        write_tensors(path / "model.safetensors", tensors, {})
        if done.config:
            card = render_card(done.config, done.schema, done.info, declared(done.method).card)
            write_text(path / "README.md", card)
        write_text(path / "run.json", json.dumps(done.info, indent=1))
        for checkpoint in path.glob("checkpoint*.safetensors"):
            checkpoint.unlink(missing_ok=True)
    return done


def load(path: Path | str) -> Run:
    """Return a finished run from its folder: the method is built from the configuration and gets the stored weights.

    Raises:
        CheckpointError: If the folder holds no finished run, a file is damaged, a newer eventvec wrote it, or something
            that the run needs is absent, such as the backbone of a language model, or an extra.
        ConfigError: If it is not a path.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ev.fit("ocp", data, epochs=1, out=folder)
        ...     run = ev.load(folder)
        >>> run.encoder.dim, run.info["entities"]
        (32, 2)
    """
    if not isinstance(path, str | os.PathLike):
        raise ConfigError(f"load takes the path of a run folder, got {type(path).__name__}")
    path = path_only(path)
    info = read_finished(path)
    check_parts(path, info.get("parts", {}))
    config, schema = read_config(path), read_schema(path)
    tensors, _ = read_tensors(path / "model.safetensors")
    if sizes := info.get("features"):
        features = build_untrained(path, sizes, schema, tensors).eval()
        run = Run(features, schema, config, info, path)
        attach_lineage(features.encoder, run.lineage)
        return run
    beside = {name: tensors.pop(name) for name in list(tensors) if name.startswith(PREFIX)}
    method, parts = build(path, config, schema, tensors), build_beside(path, info.get("beside", {}), schema, beside)
    with refusing_damage(path):  # names and shapes fit; a tokenizer or a backbone may not
        method.load_state_dict(tensors)
    run = Run(method.eval(), schema, config, info, path, beside=parts)
    attach_lineage(method.encoder, run.lineage)
    return run
