"""`card`: the model card of a run. That of a model folder needs no weights, and so nothing that computes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from eventvec import part_names
from eventvec.errors import CheckpointError, ConfigError
from eventvec.files import path_only, write_text
from eventvec.models.model_card import Source, common_sentences, plain_scores, render_card
from eventvec.models.model_files import read_config, read_finished, read_info, read_schema, writer
from eventvec.schema import Schema
from eventvec.tables.addresses import Tabular
from eventvec.toml_tables import Table

if TYPE_CHECKING:
    from eventvec.dataset import Dataset
    from eventvec.models.model import Model


class _Described(NamedTuple):
    """What a card says of a run: the content of its files, its folder, and the paragraph that its method declares."""

    config: Table
    schema: Schema
    info: Mapping[str, Any]
    path: Path | None
    paragraph: str


def card(
    run: Model | Path | str,
    evaluations: Sequence[Source] = (),
    *,
    events: Dataset | Tabular | None = None,
    save: bool = False,
) -> str:
    """Return the model card of a run as Markdown: data, settings, scores, limits, and how to use it.

    Training writes the card into the model folder as `README.md`, without scores, because there are none yet.

    Args:
        run: The run, or its folder, whose weights are not read if the card depends on nothing but the other files.
        evaluations: Evaluations of its embeddings: what `evaluate` returned, or files with the JSON that
            ``eventvec evaluate --json`` printed.
        events: Events, with which the card has the sentences of `describe` that are true of half of the histories or
            more. The codes that most histories have are written out. A table is read by the run, which is then loaded.
        save: Whether the card replaces the one in the model folder.

    Raises:
        ConfigError: If the run has no folder to save to, or no configuration.
        DataError: If an evaluation cannot be read, or is of the embeddings of another run, or no history has an event.
        CheckpointError: If the folder holds no finished run, another process writes it, or it holds another run by now.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"card": [1, 1, 2, 2], "day": [1, 2, 1, 2], "paid": [0.5, 1.0, 2.0, 3.0]})
        >>> run = ev.fit(ev.read(events, key="card", time="day", numeric=["paid"]), method="ocp", epochs=1)
        >>> [line for line in card(run).splitlines() if line.startswith("## ")][:4]
        ['## Data and training', '## Settings', '## Scores', '## Limits']
    """
    described = _of_folder(path_only(run)) if isinstance(run, str | os.PathLike) else _of_run(run)
    name, path = described.info["id"], described.path
    if "learned" in described.info["blocks"] and not described.config:
        raise ConfigError(f"the model {name} has no card, because the method of its encoder has no name")
    scores = [plain_scores(described.info.get("vectors", name), each) for each in evaluations]
    common = None if events is None else common_sentences(_read(run, events))
    text = render_card(described.config, described.schema, described.info, described.paragraph, scores, common)
    if save:
        if path is None:
            raise ConfigError(f"run {name} has no folder; save it first: run = run.save(path)")
        with writer(path):
            if read_info(path)["id"] != name:
                raise CheckpointError(f"{path} holds another run by now than {name}; load it again")
            write_text(path / "README.md", text)
    return text


def _of_folder(path: Path) -> _Described:
    """Return what a card says of the run in a folder, which is loaded only if its method may declare a paragraph."""
    info = read_finished(path)
    config, schema = read_config(path) if "learned" in info["blocks"] else {}, read_schema(path)
    method, encoder = (config.get(table, {}).get("name") for table in ("method", "encoder"))
    is_known = method in part_names.METHODS and encoder in part_names.ENCODERS
    if not config or (is_known and method not in part_names.WITH_PARAGRAPH):
        return _Described(config, schema, info, path, "")
    from eventvec.models.model import load

    return _of_run(load(path))


def _of_run(run: Model) -> _Described:
    from eventvec.models.head_files import describe_head
    from eventvec.models.model import check_model

    check_model(run)
    heads = [describe_head(head)[0] for head in run.heads.values()]
    info = {**run.info, "blocks": list(run.blocks), "vector": run.vector, "heads": heads}
    return _Described(run.config, run.schema, info, run.path, run.declared.card)


def _read(run: Model | Path | str, events: Dataset | Tabular) -> Dataset:
    """Return the events as the run reads them."""
    from eventvec.dataset import Dataset
    from eventvec.models.model import Model, load

    if isinstance(events, Dataset):
        return events
    return (run if isinstance(run, Model) else load(run)).read(events)
