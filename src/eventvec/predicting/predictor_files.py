"""The folder of a predictor: plain files that appear together or not at all, with mode 0600. Nothing is pickled.

Arrays, also those of boosted trees, are in one safetensors file, the rest is JSON. `run.json` has the digest of each
file, which is compared before anything is read, so a damaged file reaches no parser. A run whose vectors are read, and
the run of a network, lie as run folders inside.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, ValidationError

from eventvec.blocks.families import (
    EARLIER,
    FAMILIES,
    NETWORK,
    STATIC,
    VECTOR,
    CallerFeatures,
    EarlierLabels,
    Encoded,
    Family,
    of_static,
    tensors_of,
)
from eventvec.blocks.labels_by_rule import LabelsByRule
from eventvec.errors import CheckpointError, ConfigError, misfit
from eventvec.files import draft_of, path_only, run_above, write_text
from eventvec.labels.horizons import Rule
from eventvec.labels.rules import options_of, rule_table
from eventvec.learners.fitted import Fitted, Given, Linear, Trees
from eventvec.learners.held_out_scores import HeldOutScores
from eventvec.learners.inputs import LARGEST
from eventvec.learners.prepared import FARTHEST, GIVEN, LINEAR
from eventvec.learners.stacking import Cell, Stacked
from eventvec.learners.task import Target
from eventvec.learners.tree_arrays import TYPES, arrays_of, booster_of
from eventvec.predicting.event_predictor import Predictor
from eventvec.predicting.network_family import Network
from eventvec.runs import load
from eventvec.runs.building import refusing_damage
from eventvec.runs.run_files import Facts, read_tensors, write_tensors
from eventvec.schema import Schema
from eventvec.sequences import Array
from eventvec.statistics import Estimate
from eventvec.tables import check_place

FORMAT, KIND = 1, "predictor"
INFO, SCHEMA, ARRAYS = "run.json", "schema.json", "arrays.safetensors"
PARTS, COLUMNS = ("mean", "scale", "weights", "offset"), "columns"
"""The arrays of a linear model, and the columns that boosted trees read, beside the arrays of the trees."""
HEAVIEST = 1e6
"""The largest weight of a model; numbers of a linear model and offsets are within so many times `LARGEST`."""
FACTS = ("id", "seed", "fingerprint", "versions", "rows", "entities", "data")
"""What `run.json` says of a predictor as of a run."""


class _Model(BaseModel, extra="forbid"):
    """A model with its weight."""

    features: str
    head: str
    weight: float = Field(gt=0, le=HEAVIEST)


class _Caller(BaseModel, extra="forbid"):
    """A family of the caller's features."""

    columns: list[str]
    means: list[float]


class _Scores(BaseModel, extra="forbid"):
    """Scores on rows that chose nothing, each with the ends of its interval."""

    by_entity: tuple[float, float, float]
    latest: tuple[float, float, float] | None
    rows: int


class _ByDelay(BaseModel, extra="forbid"):
    """Earlier labels of a table."""

    key: str
    delay: str | float | int


class _ByRule(BaseModel, extra="forbid"):
    """Earlier labels that are computed from events by the options of `future_labels`."""

    rule: dict[str, Any]


_Number = Annotated[float, Field(ge=-HEAVIEST * LARGEST, le=HEAVIEST * LARGEST)]


class _Info(BaseModel, extra="forbid"):
    """The content of the `run.json` of a predictor."""

    format: PositiveInt
    kind: Literal["predictor"]
    id: str = Field(min_length=1)
    seed: int
    fingerprint: str
    versions: dict[str, str]
    rows: NonNegativeInt
    entities: NonNegativeInt
    data: Facts
    label: str
    task: Literal["binary", "multiclass", "numeric"]
    classes: list[bool | int | float | str]
    label_time: str | None
    inclusive: bool
    families: list[str]
    caller: dict[str, _Caller]
    earlier: _ByDelay | _ByRule | None
    sets: dict[str, list[str]]
    models: list[_Model]
    offset: _Number | list[_Number]
    metric: Literal["mae"] | None
    scores: _Scores | None
    gains: dict[str, float]
    doubt: str
    given: dict[str, Any]
    notes: list[str]
    files: dict[str, str]


def check_new(folder: Path) -> None:
    """Refuse a folder in which no predictor can be written, before anything is computed.

    Raises:
        CheckpointError: If the folder is not new or empty, or lies in a run folder.
    """
    check_place(folder)
    if run := run_above(folder):
        raise CheckpointError(f"{folder} lies in the run folder {run}; choose a folder elsewhere")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CheckpointError(f"{folder} is not empty; choose a new folder")


def save_predictor(predictor: Predictor, given: Mapping[str, Any], path: str) -> None:
    """Write a predictor to a new folder.

    Args:
        predictor: The predictor.
        given: The arguments of the estimator's constructor.
        path: The folder, which is new or empty.
    """
    folder = path_only(path)
    check_new(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with draft_of(folder.parent, folder.name, is_folder=True) as draft:
            _write(predictor, given, draft)
            draft.rename(folder)  # replaces an empty folder, and no other
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be written: {error.strerror or error}") from error


def _write(predictor: Predictor, given: Mapping[str, Any], folder: Path) -> None:
    if predictor.vector is not None and VECTOR in predictor.families:
        predictor.vector.save(folder / VECTOR)
    if isinstance(network := predictor.families.get(NETWORK), Network):
        network.run.save(folder / NETWORK)
    write_text(folder / SCHEMA, predictor.schema.to_json())
    arrays = dict(tensors_of(predictor.families))
    for place, model in enumerate(predictor.stack.models.values()):
        arrays |= {f"model.{place}.{name}": torch.from_numpy(np.array(each)) for name, each in _arrays(model).items()}
    write_tensors(folder / ARRAYS, arrays, {"kind": KIND})  # a file without a header could not be read
    names = [SCHEMA, ARRAYS]
    names += [f"{part}/{file.name}" for part in (NETWORK, VECTOR) for file in sorted((folder / part).glob("*"))]
    digests = {name: _digest(folder / name) for name in names}
    write_text(folder / INFO, json.dumps({**_described(predictor), "given": dict(given), "files": digests}, indent=1))


def _described(predictor: Predictor) -> dict[str, Any]:
    """Return the content of `run.json` without the files."""
    info, stack, target = predictor.info, predictor.stack, predictor.target
    caller = {name: each for name, each in predictor.families.items() if isinstance(each, CallerFeatures)}
    earlier = predictor.families.get(EARLIER)
    scores = info["scores"]
    return {
        "format": FORMAT,
        "kind": KIND,
        **{name: info[name] for name in FACTS},
        "label": target.name,
        "task": target.task,
        "classes": list(target.classes),
        "label_time": predictor.label_time,
        "inclusive": predictor.inclusive,
        "families": list(predictor.families),
        "caller": {name: {"columns": each.columns, "means": each.means} for name, each in caller.items()},
        "earlier": _earlier(earlier),
        "sets": predictor.sets,
        "models": [{"features": f, "head": head, "weight": stack.weights[f, head]} for f, head in stack.models],
        "offset": np.asarray(stack.offset).tolist(),
        "metric": info["metric"],
        "scores": None if scores is None else _described_scores(scores),
        "gains": info["gains"],
        "doubt": info["doubt"],
        "notes": list(predictor.notes),
    }


def load_predictor(path: str) -> tuple[Predictor, dict[str, Any]]:
    """Return a predictor from its folder, and the arguments of the estimator's constructor.

    Raises:
        CheckpointError: If it is no folder of a predictor, a file is damaged, or a newer eventvec wrote it.
    """
    folder = path_only(path)
    info = _read_info(folder)
    for name, digest in info.files.items():
        if _digest(folder / name) != digest:
            raise CheckpointError(f"{folder / name} is damaged: it is not the file that was written")
    damaged = f"{folder / INFO} is damaged"
    if {SCHEMA, ARRAYS} - info.files.keys():
        raise CheckpointError(f"{damaged}: files lack {SCHEMA} or {ARRAYS}")
    schema = Schema.from_json((folder / SCHEMA).read_bytes(), str(folder / SCHEMA))
    arrays, _ = read_tensors(folder / ARRAYS)
    vector = load(folder / VECTOR) if VECTOR in info.families else None
    target = Target(info.label, info.task, np.zeros(0), np.zeros(0, int), tuple(info.classes))
    with refusing_damage(folder):
        families = dict[str, Family]()
        for name in info.families:
            if name == NETWORK:
                families[name] = Network(load(folder / name), target.task, len(target.classes))
            elif vector is not None and name == VECTOR:
                families[name] = Encoded(vector.encoder)
            else:
                families[name] = _family(name, info, schema, target, arrays)
        sets = {name: tuple(parts) for name, parts in info.sets.items()}
        models = {
            (each.features, each.head): _model(place, each.head, info, arrays) for place, each in enumerate(info.models)
        }
        _check(info, sets, families, models)
        unlisted = {name.split(".")[1] for name in arrays if name.startswith("model.")} - set(
            map(str, range(len(models)))
        )
        if unlisted or len(models) < len(info.models) or not (models or info.task == "numeric"):
            raise ValueError(f"{INFO}: models are missing or listed twice")
    weights = {(each.features, each.head): each.weight for each in info.models}
    offset = info.offset if isinstance(info.offset, float) else np.asarray(info.offset)
    stack = Stacked(info.task, models, weights, offset)
    facts = info.model_dump(
        include={*FACTS, "metric", "gains", "doubt"},
        exclude_unset=True,
    )
    predictor = Predictor(
        schema, target, families, sets, stack, {**facts, "scores": _read_scores(info.scores)}, info.label_time,
        info.inclusive, vector, tuple(info.notes),
    )  # fmt: skip
    return predictor, info.given


def _read_info(folder: Path) -> _Info:
    try:
        text = (folder / INFO).read_bytes()
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder} is not the folder of a predictor: its {INFO} cannot be read") from error
    try:
        head = json.loads(text)
        if not isinstance(head, dict) or head.get("kind") != KIND:
            raise CheckpointError(f"{folder} holds no predictor; load a run by ev.load(path)")
        if isinstance(head.get("format"), int) and head["format"] > FORMAT:
            raise CheckpointError(
                f"{folder} has format {head['format']}; this eventvec reads up to {FORMAT}: upgrade eventvec"
            )
        return _Info.model_validate(head)
    except ValidationError as error:
        raise CheckpointError(f"{folder / INFO} is damaged: {misfit(error)}") from error
    except ValueError as error:
        raise CheckpointError(f"{folder / INFO} is damaged: it is no JSON") from error


def _family(name: str, info: _Info, schema: Schema, target: Target, arrays: Mapping[str, torch.Tensor]) -> Family:
    """Return a family as it was in training."""
    if name in FAMILIES:
        encoder, prefix = FAMILIES[name](schema), f"family.{name}."
        state = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
        encoder.load_state_dict(state)
        return Encoded(encoder.eval())
    if name == STATIC and (static := of_static(schema, [each.name for each in schema.static])):
        return static
    if name == EARLIER and isinstance(info.earlier, _ByDelay):
        return EarlierLabels(info.earlier.key, target, info.earlier.delay, info.inclusive)
    if name == EARLIER and isinstance(info.earlier, _ByRule):
        return LabelsByRule(_rule(info.earlier.rule, schema), target, info.inclusive)
    caller = info.caller[name]
    return CallerFeatures(name, tuple(caller.columns), tuple(caller.means), info.label_time)


def _rule(table: Mapping[str, Any], schema: Schema) -> Rule:
    """Return a rule as it was in training."""
    try:
        return Rule.of(schema, options_of(table))
    except ConfigError as error:
        raise ValueError(f"{INFO}: {error}") from error


def _arrays(model: Fitted) -> Mapping[str, Array]:
    """Return the arrays of a trained model by name."""
    if isinstance(model, Trees):
        return {**arrays_of(model.booster), COLUMNS: np.asarray(model.columns)}
    return {part: getattr(model, part) for part in PARTS} if isinstance(model, Linear) else {}


def _model(place: int, head: str, info: _Info, arrays: Mapping[str, torch.Tensor]) -> Fitted:
    """Return a trained model."""
    prefix, names = f"model.{place}.", {GIVEN: (), LINEAR: PARTS}.get(head, (*TYPES, COLUMNS))
    of_model = {name.removeprefix(prefix): each.numpy() for name, each in arrays.items() if name.startswith(prefix)}
    if differences := sorted(of_model.keys() ^ set(names)):
        raise ValueError(f"{ARRAYS} lacks, or has too much: {', '.join(prefix + name for name in differences)}")
    if head == GIVEN:
        return Given(info.task)
    if head == LINEAR:
        mean, scale, weights, offset = (of_model[part] for part in PARTS)
        return Linear(info.task, mean, scale, weights, offset, FARTHEST)
    columns = of_model.pop(COLUMNS)
    if columns.dtype != np.int64 or columns.ndim != 1 or (columns < 0).any() or (columns[1:] <= columns[:-1]).any():
        raise ValueError(f"{ARRAYS}: the columns of boosted trees must be ascending indices")
    try:
        return Trees(booster_of(of_model, info.task, len(info.classes), len(columns)), 1, columns)
    except ValueError as error:
        raise ValueError(f"{ARRAYS}: {error}") from error


def _check(
    info: _Info, sets: Mapping[str, tuple[str, ...]], families: Mapping[str, Family], models: Mapping[Cell, Fitted]
) -> None:
    """Refuse models that do not fit one another."""
    outputs = len(info.classes) if info.task == "multiclass" else 1
    if np.size(np.asarray(info.offset)) not in (1, outputs):
        raise ValueError(f"{INFO}: offset has another number of classes")
    for name, model in ((cell[0], model) for cell, model in models.items()):
        if not set(sets[name]) <= families.keys():
            raise ValueError(f"{INFO}: the set {name!r} names a family that is not listed")
        if isinstance(model, Given) and sets[name] != (NETWORK,):
            raise ValueError(f"{INFO}: the set {name!r} holds no predictions")
        if isinstance(model, Linear) and (
            model.weights.shape != (len(model.mean), outputs) or len(model.scale) != len(model.mean)
            or model.offset.shape != (outputs,)
        ):  # fmt: skip
            raise ValueError(f"{ARRAYS}: the arrays of a linear model do not fit")
        if isinstance(model, Linear) and not (
            all((np.abs(getattr(model, part)) <= HEAVIEST * LARGEST).all() for part in PARTS)
            and (model.scale > 0).all()
        ):
            raise ValueError(
                f"{ARRAYS}: the arrays of a linear model have NaN, numbers that are too large, or a scale of 0"
            )


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; a text of no file if it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except OSError:
        return ""


def _described_scores(scores: HeldOutScores) -> dict[str, Any]:
    def ends(estimate: Estimate) -> list[float]:
        return [estimate.value, estimate.low, estimate.high]

    latest = None if scores.latest is None else ends(scores.latest)
    return {"by_entity": ends(scores.by_entity), "latest": latest, "rows": scores.rows}


def _read_scores(scores: _Scores | None) -> HeldOutScores | None:
    """Return the scores of which `_described_scores` are the numbers."""
    if scores is None:
        return None
    latest = None if scores.latest is None else Estimate(*scores.latest)
    return HeldOutScores(Estimate(*scores.by_entity), latest, scores.rows)


def _earlier(family: Family | None) -> dict[str, Any] | None:
    """Return how earlier labels are read, if they are."""
    if isinstance(family, LabelsByRule):
        return {"rule": rule_table(family.rule.options)}
    return {"key": family.key, "delay": _delay(family.delay)} if isinstance(family, EarlierLabels) else None


def _delay(delay: Any) -> str | int | float:
    """Return a length of time as text or a number."""
    return delay if isinstance(delay, str | int | float) else f"{int(delay.total_seconds())}s"
