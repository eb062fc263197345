"""A run is a folder of plain files: configuration, schema, weights, metrics, where they came from, a model card.

Nothing is ever pickled: weights are safetensors, the rest is TOML and JSON, so loading never executes code. Files have
mode 0600 and appear whole or not at all.
"""

from __future__ import annotations

import json
import platform
import tomllib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import tomli_w
import torch
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from eventvec.config import Table, build_method
from eventvec.dataset import Dataset
from eventvec.errors import CheckpointError, ConfigError
from eventvec.files import whole
from eventvec.methods.cresp_targeted import Prediction
from eventvec.schema import Schema

FORMAT = 1
"""Version of the run folder; a newer one is refused."""

OWN = ("config.toml", "schema.json")
"""Files that stand in a folder before it is a run: a run that was killed there may be begun again."""

STATIC = ("label", "features", "description")
"""Options of methods that name static columns: those that training learns from and that a run keeps the schema of."""


class _Info(BaseModel, extra="allow"):
    """What a `run.json` has to hold; it may hold more."""

    format: int
    id: str
    seed: int
    fingerprint: str
    labels: list[str]
    holdouts: list[dict[str, Any]]
    finished: bool


@dataclass(frozen=True, eq=False)
class Run:
    """What a run folder holds.

    Args:
        path: the folder.
        id: random name of the run; embeddings and states carry it.
        config: the tables that built the method.
        schema: what the columns of the events mean.
        method: the method with its trained weights, in evaluation mode.
        info: seed, data fingerprint, library versions, counts, and whether training has `finished`. Of this run and all
            that its encoder comes from: `labels`, the static columns that it was trained on, and `holdouts`, a record
            per run, the earliest first: its id (`run`), the `fraction` held out (or none), `seed` and `fingerprint`.

    Example:
        >>> import eventvec as ev
        >>> run = ev.load("run")  # doctest: +SKIP
        >>> run.schema.key, run.encoder.dim, run.info["seed"]  # doctest: +SKIP
        ('card', 128, 0)
    """

    path: Path
    id: str
    config: Table
    schema: Schema
    method: nn.Module
    info: Mapping[str, Any]

    @property
    def encoder(self) -> nn.Module:
        """The trained encoder."""
        encoder = self.method.encoder
        assert isinstance(encoder, nn.Module)
        return encoder


def start(path: Path, config: Table, data: Dataset, seed: int) -> dict[str, Any]:
    """Write what is known of a run before its first step and return its `run.json`."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    x = data.sequences
    info = {
        "format": FORMAT,
        "id": uuid.uuid4().hex[:12],
        "seed": seed,
        "fingerprint": data.fingerprint,
        "entities": len(data),
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "finished": False,
    }
    if x.total:  # a process has no events of its own
        info["events"] = x.total
    named = _static(config.get("method", {}))
    held = {"run": info["id"], "fraction": config.get("data", {}).get("holdout") or None, "seed": seed}
    before: Mapping[str, Any] = {"labels": [], "holdouts": []}
    if "from" in config.get("encoder", {}):
        before = read_info(Path(config["encoder"]["from"]))
        info["from"] = before["id"]
    info["labels"] = list(dict.fromkeys([*before["labels"], *named]))
    info["holdouts"] = [*before["holdouts"], {**held, "fingerprint": data.fingerprint}]
    schema = replace(data.schema, static=tuple(field for field in data.schema.static if field.name in named))
    write_text(path / "config.toml", tomli_w.dumps(config))
    write_text(path / "schema.json", schema.to_json())
    write_text(path / "run.json", json.dumps(info, indent=1))  # last: where it is, the others are
    return info


def encoder_table(run: Run, table: Table) -> Table:
    """Return the `[encoder]` table for a method that goes on training a run's encoder, which it names in `from`.

    Args:
        run: the finished run.
        table: what was said of the encoder; nothing that the run's says otherwise.

    Raises:
        ConfigError: it was.
    """
    own = run.config["encoder"]
    for option, value in table.items():
        if option != "from" and own.get(option) != value:
            raise ConfigError(
                f"encoder.{option} is {value!r}, that of {run.path} is {own.get(option)!r}; "
                "leave it out: an encoder is trained further as it is"
            )
    return {**own, "from": str(run.path)}


def begin_from(method: nn.Module, schema: Schema, run: Run) -> None:
    """Put the trained weights of a run's encoder into a method's, for fine-tuning.

    Args:
        method: with an encoder of the same shape.
        schema: of the data that the method is to be trained on.
        run: the finished run.

    Raises:
        CheckpointError: the events are coded otherwise than the run's, or the encoder has another shape.
    """
    for part in ("categorical", "numeric", "gap", "clock"):
        if getattr(schema, part) != getattr(run.schema, part):
            raise CheckpointError(
                f"the events are read by another schema than {run.path} was trained with (they differ in {part}); "
                "read them with its schema: read(..., schema=run.schema)"
            )
    try:
        method.encoder.load_state_dict(run.encoder.state_dict())  # type: ignore[union-attr]
    except RuntimeError as error:
        raise CheckpointError(f"the encoder of {run.path} has another shape than this one; build the same") from error


def finish(path: Path, method: nn.Module, info: dict[str, Any], summary: Mapping[str, Any]) -> None:
    """Write the trained weights and the model card, and mark the run as finished."""
    write_tensors(path / "model.safetensors", method.state_dict(), {})
    done = {**info, **summary, "finished": True}
    schema = Schema.from_json((path / "schema.json").read_text())
    targeted = isinstance(getattr(method, "predictor", None), Prediction)
    write_text(path / "README.md", card(read_config(path), schema, done, targeted))
    write_text(path / "run.json", json.dumps(done, indent=1))
    (path / "checkpoint.safetensors").unlink(missing_ok=True)


def load(path: Path | str) -> Run:
    """Return a finished run, its method rebuilt from the configuration and the weights put in.

    Raises:
        CheckpointError: the folder is no finished run, a file is damaged, a newer eventvec wrote it, or what it was
            made with (the backbone of a language model, an extra) is not here.

    Example:
        >>> import tempfile
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"])
        >>> method = ev.CoLES(ev.GRU(ev.EventEncoder(data.schema), dim=4), ev.RandomSlices(shortest=1, longest=2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = ev.fit(method, data, epochs=1, out=folder)
        ...     run = ev.load(folder)
        >>> run.encoder.dim, run.info["entities"]
        (4, 2)
    """
    path = Path(path)
    info = read_info(path)
    if not info["finished"]:
        raise CheckpointError(f"{path} holds a run that has not finished; go on with: eventvec fit … --resume")
    try:
        config = read_config(path)
        schema = Schema.from_json((path / "schema.json").read_text())
        method = _build(path, config, schema)
        tensors, _ = read_tensors(path / "model.safetensors")
        method.load_state_dict(tensors)
        if not all(bool(tensor.isfinite().all()) for tensor in tensors.values()):
            raise ValueError("model.safetensors holds weights that are no finite numbers")
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise CheckpointError(f"{path} is damaged: {str(error).splitlines()[0]}") from error
    return Run(path, info["id"], config, schema, method.eval(), info)


def provenance(run: Run, data: Dataset) -> dict[str, Any]:
    """Return what a file that is made with a run says of its origin, as JSON can.

    Args:
        run: the run that scores; its `labels` and `holdouts` are taken over.
        data: what is scored.

    Example:
        >>> import eventvec as ev
        >>> sorted(provenance(ev.load("run"), data))  # doctest: +SKIP
        ['fingerprint', 'holdouts', 'labels', 'run']
    """
    taken = {name: run.info[name] for name in ("labels", "holdouts")}
    return {"run": run.id, "fingerprint": data.fingerprint, **taken}


def read_info(path: Path) -> dict[str, Any]:
    """Return a run's `run.json`.

    Raises:
        CheckpointError: there is none, it is damaged, or a newer eventvec wrote it.
    """
    try:
        info: dict[str, Any] = _Info.model_validate_json((path / "run.json").read_bytes()).model_dump()
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is no run folder: it has no run.json") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CheckpointError(f"{path}/run.json is damaged: {where}: {first['msg']}") from error
    except OSError as error:
        raise CheckpointError(f"{path}/run.json cannot be read: {error.strerror}") from error
    if info["format"] > FORMAT:
        raise CheckpointError(
            f"{path} has format {info['format']}; this eventvec reads up to {FORMAT}: upgrade eventvec"
        )
    return info


def read_config(path: Path) -> Table:
    """Return the tables of a run's `config.toml`.

    Raises:
        CheckpointError: it is absent or damaged.
    """
    try:
        tables = tomllib.loads((path / "config.toml").read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path}/config.toml is damaged or absent: {error}") from error
    if not all(isinstance(table, dict) for table in tables.values()):
        raise CheckpointError(f"{path}/config.toml is damaged: it holds something that is no table")
    return tables


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write named tensors and texts as one safetensors file."""
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with whole(path) as draft:
        save_file(own, draft, metadata=dict(metadata))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the named tensors and the texts of a safetensors file.

    Raises:
        CheckpointError: the file is absent or damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is damaged or absent: {error}") from error


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    with whole(path) as draft:
        draft.write_text(text, encoding="utf-8")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that results depend on.

    Example:
        >>> sorted(versions())
        ['eventvec', 'numpy', 'polars', 'pyarrow', 'python', 'safetensors', 'scikit-learn', 'torch']
    """
    found = {"python": platform.python_version()}
    for name in ("eventvec", "torch", "numpy", "polars", "pyarrow", "safetensors", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def card(config: Table, schema: Schema, info: Mapping[str, Any], targeted: bool = False) -> str:
    """Return the model card: what the model was made of, and what its embedding may reveal.

    Args:
        config: the run's tables.
        schema: what its columns mean.
        info: its finished `run.json`.
        targeted: the method predicts what is seen at a place x*, beside the embedding.
    """
    categorical = ", ".join(f"`{column.name}` ({len(column.values)} values)" for column in schema.categorical)
    numeric = ", ".join(f"`{column.name}`" for column in schema.numeric)
    static = ", ".join(f"`{column.name}`" for column in schema.static)
    libraries = ", ".join(f"{name} {number}" for name, number in info["versions"].items())
    labels = ", ".join(f"`{name}`" for name in info["labels"])
    columns = "column" if len(info["labels"]) == 1 else "columns"
    learned = f"learning from the static {columns} {labels}" if labels else "without labels"
    begun = f", going on from run {info['from']}" if "from" in info else ""
    counts = {name: f"{info[name]:,}" for name in ("entities", "events") if name in info}
    meaning = TARGETED if targeted else ""
    return f"""# Run {info["id"]}

An encoder of event histories, trained by eventvec with the method `{config["method"]["name"]}` and the encoder
`{config["encoder"]["name"]}`, {learned}{begun}.
{meaning}
| | |
| --- | --- |
| {", ".join(counts)} | {", ".join(counts.values())} |
| categorical columns | {categorical or "none"} |
| numeric columns | {numeric or "none"} |
| static columns used | {static or "none"} |
| steps, seconds | {info["steps"]:,}, {info["seconds"]:.0f} |
| stopped by | {info["stopped"]} |
| seed | {info["seed"]} |
| data fingerprint | `{info["fingerprint"]}` |
| libraries | {libraries} |

`config.toml` has every setting, `metrics.jsonl` the course of training, `schema.json` the vocabularies: values that
were seen fewer times than the minimum count are in no file.

## Before you use it

An embedding can reveal what was never a column: where someone lives, their age, their health. Measure it: evaluate the
embedding with the protected attribute as label, beside aggregates, before the embedding leaves the team that may see
the events. It describes the entities and the time that it was trained on; scores on other ones have to be measured.
"""


TARGETED = """
The embedding represents the context, which is all events of a row, and depends on no x*. What the method predicts at a
place x* is another vector, that of `run.method.predictor`, for rows with the static column `x*`.
"""
"""What the model card of a targeted method says of its embedding."""


def _static(method: Table) -> list[str]:
    """Return the static columns that a `[method]` table names."""
    said = [method[option] for option in STATIC if option in method]
    return [name for value in said for name in ([value] if isinstance(value, str) else value)]


def _build(path: Path, config: Table, schema: Schema) -> nn.Module:
    """Return the method of a run, or say what of its configuration cannot be met."""
    try:
        return build_method(config, schema)
    except ConfigError as error:
        raise CheckpointError(f"{path} needs what its config.toml names: {error}") from error
