"""From a configuration and data to a method that is ready to be trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from eventvec.config import Table, build_method, check, complete, resolved
from eventvec.dataset import Dataset, check_dataset
from eventvec.encoders.interface import attach_lineage
from eventvec.encoders.recurrent import Recurrent
from eventvec.errors import CheckpointError, ConfigError
from eventvec.methods.declarations import Method
from eventvec.models import Model, load, model_files
from eventvec.models.building import outline
from eventvec.options import gather
from eventvec.precision import check_precision, pays
from eventvec.sequences import Sequences, histories
from eventvec.threads import size
from eventvec.training.fit_options import FitOptions
from eventvec.training.suggestions import suggest


def settings(x: Sequences, config: Mapping[str, Any], parent: Model | None = None) -> Table:
    """Return a configuration with the sizes that follow from the data, and with every default.

    Args:
        config: The tables `method`, `encoder` and `fit`, or some of them.
    """
    tables = {name: dict(table) for name, table in config.items()}
    if parent is not None:
        tables["encoder"] = _parent_encoder(parent, tables.get("encoder", {}))
    return complete(suggest(x, tables))


def options_of(path: Path, config: Mapping[str, Any]) -> FitOptions:
    """Return the options of training of a run."""
    try:
        return gather({"precision": "float32", **config.get("fit", {})}, FitOptions)  # as before there was a choice
    except ConfigError as error:
        raise CheckpointError(f"{path}/config.toml is damaged: fit: {error}") from error


def with_precision(
    options: FitOptions, method: Method, place: torch.device, resumed: Path | None
) -> tuple[FitOptions, tuple[str, ...]]:
    """Return the options with a precision in place of `auto`, and a note if that is bfloat16 and was not before.

    Args:
        resumed: The folder of a run that may have begun already, whose precision is kept.
    """
    if options.precision != "auto":
        check_precision(options.precision, place)
        return options, ()
    if resumed is not None and (resumed / "config.toml").exists():
        begun = options_of(resumed, model_files.read_config(resumed)).precision
        try:
            check_precision(begun, place)
        except ConfigError as error:
            reason = f"{resumed} was begun in bfloat16, which this CPU does not compute in; resume it on one that does"
            raise CheckpointError(f"{reason}, or begin anew with precision float32") from error
        return replace(options, precision=begun), ()
    if isinstance(method.encoder, Recurrent) and pays(size(method), place):
        note = "matrix products of the training are in bfloat16, which takes less time on this CPU at this size"
        return replace(options, precision="bfloat16"), (f"{note}; precision float32 turns it off",)
    return replace(options, precision="float32"), ()


def parent_run(config: Mapping[str, Any]) -> Model | None:
    """Return the run that the entry `from` of `[encoder]` names, or None without this entry."""
    if "from" not in config.get("encoder", {}):
        return None
    path = config["encoder"]["from"]
    return load(path if isinstance(path, Path) else Path(check(path, str, "encoder.from")))


def set_up(data: Dataset, tables: Mapping[str, Any], parent: Model | None = None) -> tuple[Method, Table]:
    """Return the method of a configuration, and its tables with everything that follows from the data.

    Args:
        tables: The tables `method`, `encoder` and `fit`, or some of them.
        parent: The run whose encoder's weights the method starts from.
    """
    seed = gather(tables.get("fit", {}), FitOptions).seed  # a wrong option is refused before anything is built
    check_dataset(data)
    x = data.sequences if data.moments is None else data.sequences[histories(data.sequences)[0]]
    config = settings(x, tables, parent)
    outline(config, data.schema)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # not those of GPUs, which are not restored here
        method = build_method(config, data.schema)
    if parent is not None:
        parent.check_schema(data.schema)
        method.encoder.load_state_dict(parent.method.encoder.state_dict())
        attach_lineage(method.encoder, parent.lineage)
    return method, resolved(config, method)


def _parent_encoder(parent: Model, table: Mapping[str, Any]) -> Table:
    """Return the `[encoder]` table of a method that trains a run's encoder further."""
    if not parent.learned.config:
        raise ConfigError(
            f"the encoder of run {parent.id} has no name in configurations, so it cannot be built again; put a method "
            "together with run.method.encoder and give it to fit"
        )
    written = {option: value for option, value in parent.config["encoder"].items() if option != "from"}
    encoder: Table = complete({"encoder": written})["encoder"]
    for option, value in table.items():
        if option != "from" and encoder.get(option) != value:
            raise ConfigError(
                f"encoder.{option} must be that of run {parent.path or parent.id}, {encoder.get(option)!r}, "
                f"got {value!r}; leave it out: an encoder is trained further without change"
            )
    return {**encoder, "from": str(parent.path)} if parent.path else encoder
