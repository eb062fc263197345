"""The command line: each command is a few lines over the Python API.

Exit codes: 0 done, 1 failed, 2 wrong usage. Tables and `--json` go to standard output, bars and notes to the error one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, ParamSpec, TypeVar, cast, get_args

import pyarrow as pa
import torch
import typer

from eventvec import checkpoint, config, tables
from eventvec.cli import terminal
from eventvec.cli.doctor import examine
from eventvec.cli.terminal import Device, Json, KeyAs, LabelsAt, LabelTime, Static, TimeFormat, Until
from eventvec.dataset import Dataset
from eventvec.diagnosis import diagnose as look_into
from eventvec.diagnosis import write_page
from eventvec.embedding import embed as embed_rows
from eventvec.encoders import ENCODERS
from eventvec.encoders.aggregates import Aggregates
from eventvec.errors import ConfigError, nearest
from eventvec.evaluation import evaluate as score
from eventvec.evaluation import join_labels, render
from eventvec.methods import METHODS
from eventvec.precision import Precision
from eventvec.prediction import predict as score_labels
from eventvec.training.loop import Record
from eventvec.training.loop import fit as train
from eventvec.updating.batches import Late
from eventvec.updating.batches import update as bring_up
from eventvec.updating.store import forget as forget_entity

P = ParamSpec("P")
R = TypeVar("R")
app = typer.Typer(
    help="Turns event histories into vectors, and proves what they are worth.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def command(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function as a command: what a user can put right is one sentence, not a stack trace."""
    return app.command()(terminal.sentences(function))


@command
def demo(
    out_: Annotated[Path, typer.Option("--out", help="New folder for the results.")] = Path("demo-run"),
    json_: Json = False,
) -> None:
    """Learn, embed, evaluate and draw a page on real data inside the package: every aircraft out of New York, 2013.

    Example: `eventvec demo --out demo-run`
    """
    from eventvec.cli import demo as example

    result = example.run(out_, console=terminal.err)
    if json_:
        typer.echo(json.dumps(result.to_dict()))
        return
    for evaluation in result.evaluations:
        terminal.out.print(render(evaluation))
    terminal.out.print(f"the page: {result.page}", soft_wrap=True)


@command
def fit(
    config_: Annotated[Path | None, typer.Argument(metavar="[CONFIG.toml]", help="Configuration to run.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Change an option: method.margin=0.3")] = None,
    events: Annotated[str | None, typer.Option(help="Events: Parquet file, folder, glob, or CSV.")] = None,
    key: Annotated[str | None, typer.Option(help="Column that names the entity.")] = None,
    time: Annotated[str | None, typer.Option(help="Column that orders an entity's events.")] = None,
    categorical: Annotated[str | None, typer.Option(help="Columns of codes, a,b,c; once listed, only these.")] = None,
    numeric: Annotated[str | None, typer.Option(help="Columns of numbers, a,b,c; once listed, only these.")] = None,
    time_format: TimeFormat = None,
    meds: Annotated[
        bool, typer.Option("--meds", help="Columns as in MEDS: subject_id, time, code, numeric_value.")
    ] = False,
    until: Until = None,
    labels: LabelsAt = None,
    label_time: LabelTime = None,
    static: Static = None,
    key_as: Annotated[str | None, typer.Option(help="Name of the key in files that are written.")] = None,
    holdout: Annotated[float | None, typer.Option(help="Share of entities that training never sees.")] = None,
    method: Annotated[str | None, typer.Option(help=f"One of: {', '.join(METHODS)}.")] = None,
    encoder: Annotated[str | None, typer.Option(help=f"One of: {', '.join(ENCODERS)}.")] = None,
    from_: Annotated[Path | None, typer.Option("--from", help="Run whose trained encoder is trained further.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.")] = None,
    time_budget: Annotated[str | None, typer.Option(help="Longest training: 120s, 10m, 2h.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.")] = None,
    run: Annotated[Path | None, typer.Option("--out", help="Run folder to write.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the run's last checkpoint.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the schema and the settings, and stop.")] = False,
    device: Device = "auto",
    json_: Json = False,
) -> None:
    """Train an encoder, without labels unless --method supervised, and write a run folder.

    Bounded by --epochs or --time-budget; with neither, by early stopping or 5 minutes.

    Example: `eventvec fit --events events.parquet --key card --time when --out run`

    Then on labels: `eventvec fit --events events.parquet --from run --static people.parquet --method supervised
    --set method.label=churn --out tuned`
    """
    given: config.Table = {
        "data": {
            "path": events, "key": key, "time": time,
            "categorical": terminal.names(categorical), "numeric": terminal.names(numeric),
            "time_format": time_format, "meds": meds or None, "until": until, "labels": labels and str(labels),
            "label_time": label_time, "static": static, "key_as": key_as, "holdout": holdout,
        },
        "method": {"name": method},
        "encoder": {"name": encoder, "from": from_ and str(from_)},
        "fit": {"epochs": epochs, "time_budget": time_budget and terminal.seconds(time_budget), "seed": seed},
    }  # fmt: skip
    settings = config.read_config(config_, set_ or ()) if config_ else config.change({}, set_ or ())
    for table, options in given.items():
        said = {name: value for name, value in options.items() if value is not None}
        if said:
            settings[table] = {**settings.get(table, {}), **said}
    if "path" not in settings.get("data", {}):
        raise ConfigError("say which events to learn from: --events FILE --key COLUMN --time COLUMN, or a CONFIG.toml")
    if run is None and not dry_run:
        raise ConfigError("say where the run goes: --out FOLDER")
    seed = config.options(settings.get("fit", {}), train, FIXED, "fit").get("seed", terminal.default(train, "seed"))
    origin = _origin(settings)
    with terminal.bar("reading"):
        source, schema = {**settings["data"], "name": "data"}, origin and origin.schema
        data: Dataset = config.build(source, {"data": tables.open_events}, "data", seed=seed, schema=schema)
    settings = config.complete(config.suggest(data.sequences, settings))
    training = config.options(settings["fit"], train, FIXED, "fit")
    if dry_run:
        terminal.describe(data, settings, json_)
        return
    terminal.notes(data.notes)
    where = terminal.device(device)
    torch.manual_seed(seed)  # the initial weights; this process does nothing else
    model = config.build_method(settings, data.schema).to(where)
    if "backbone" in settings["encoder"]:  # an absolute path where it is a folder, so that the run loads from elsewhere
        settings["encoder"]["backbone"] = getattr(model.encoder, "backbone")  # noqa: B009 (mypy knows no such attribute)
    if origin:
        checkpoint.begin_from(model, data.schema, origin)
    with terminal.bar("training") as tick:

        def progress(record: Record) -> None:
            text = f"epoch {record['epoch']} · loss {record['loss']:.4g} · {record['events_per_second']:,} events/s"
            tick(record["share"] or 0, 1, text)

        result = train(model, data.to(where), out=run, resume=resume, config=settings, progress=progress, **training)
    terminal.notes(result.notes)
    last = result.history[-1]
    summary = {
        "run": str(run), "entities": len(data), "usable": result.usable, "steps": result.steps,
        "seconds": result.seconds, "stopped": result.stopped, "loss": last["loss"], "validation": last["validation"],
    }  # fmt: skip
    terminal.show(summary, json_)


@command
def embed(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="Events: Parquet file, folder, glob, or CSV.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet file to write.")],
    until: Until = None,
    labels: LabelsAt = None,
    label_time: LabelTime = None,
    time_format: TimeFormat = None,
    key_as: KeyAs = None,
    wide: Annotated[bool, typer.Option("--wide", help="One column per dimension, emb_000 and on.")] = False,
    normalize: Annotated[bool, typer.Option("--normalize", help="Scale each embedding to length 1.")] = False,
    precision: Annotated[str, typer.Option(help="float32, or bfloat16: faster, off by about 0.3 %.")] = "float32",
    device: Device = "auto",
    json_: Json = False,
) -> None:
    """Write one embedding per entity.

    Example: `eventvec embed run events.parquet -o embeddings.parquet`
    """
    terminal.file(output, "embeddings.parquet")
    trained = checkpoint.load(run)
    if precision not in get_args(Precision):
        raise ConfigError(f"--precision {precision!r} is not known; {nearest(precision, get_args(Precision))}")
    data = _rows(trained, events, until, labels, label_time, time_format, key_as)
    encoder = trained.encoder.to(terminal.device(device))
    with terminal.bar("embedding") as tick:
        z = embed_rows(encoder, data, precision=cast(Precision, precision), progress=tick)
    if normalize:
        z = torch.nn.functional.normalize(z, dim=1)
    about = checkpoint.provenance(trained, data) | ({} if until is None else {"until": until})
    tables.write(output, data, z, wide=wide, metadata=about)
    terminal.show({"output": str(output), "entities": len(data), "dim": z.shape[1], "run": trained.id}, json_)


@command
def update(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")],
    state: Annotated[Path, typer.Option(help="State store of the run; made if it is missing.")],
    events: Annotated[str | None, typer.Argument(metavar="NEW_EVENTS", help="Parquet file, folder, glob, CSV.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Parquet file to write.")] = None,
    late: Annotated[str, typer.Option(help=f"{', '.join(get_args(Late))}.")] = terminal.default(bring_up, "late"),
    history: Annotated[str | None, typer.Option(help="All events, for --late recompute.")] = None,
    batch_id: Annotated[str | None, typer.Option(help="Name of the batch; else its content is its name.")] = None,
    recent: Annotated[int | None, typer.Option(help="Latest events to embed, if the encoder has no state.")] = None,
    keep: Annotated[int | None, typer.Option(help="Last batches that can be given again; else all.")] = None,
    forget: Annotated[str | None, typer.Option(metavar="KEY", help="Delete this entity from the store.")] = None,
    time_format: TimeFormat = None,
    key_as: KeyAs = None,
    device: Device = "auto",
    json_: Json = False,
) -> None:
    """Write one fresh embedding per entity that new events touch, from stored states and these events alone.

    Example: `eventvec update run today.parquet --state state.db -o fresh.parquet`

    To delete an entity: `eventvec update run --state state.db --forget KEY`
    """
    if forget is not None and events is None and output is None:
        forget_entity(state, forget, checkpoint.read_info(run)["id"])
        terminal.show({"state": str(state), "forgotten": 1}, json_)
        return
    if forget is not None or events is None or output is None:
        raise ConfigError("give NEW_EVENTS and -o FILE to apply a batch, or --forget KEY alone to delete an entity")
    terminal.file(output, "fresh.parquet")
    trained = checkpoint.load(run)
    trained.encoder.to(terminal.device(device))
    with terminal.bar("updating"):
        done = bring_up(
            trained, events, state, late=cast(Late, late), history=history, batch_id=batch_id, recent=recent, keep=keep,
            time_format=time_format, key_as=key_as,
        )  # fmt: skip
    terminal.notes(done.notes)
    about = checkpoint.provenance(trained, done.data)
    tables.write(output, done.data, done.embeddings, events=done.events, last_time=done.last_time, metadata=about)
    counts = {"entities": len(done.data), "new": done.new, "late": done.late, "applied": done.applied}
    terminal.show({"output": str(output), **counts, "dim": done.embeddings.shape[1], "run": trained.id}, json_)


@command
def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run folder of the method supervised.")],
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="Events: Parquet file, folder, glob, or CSV.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet file to write.")],
    until: Until = None,
    labels: LabelsAt = None,
    label_time: LabelTime = None,
    time_format: TimeFormat = None,
    key_as: KeyAs = None,
    device: Device = "auto",
    json_: Json = False,
) -> None:
    """Write one prediction per entity, and the chance of each class.

    Example: `eventvec predict tuned events.parquet -o predictions.parquet`
    """
    terminal.file(output, "predictions.parquet")
    trained = checkpoint.load(run)
    data = _rows(trained, events, until, labels, label_time, time_format, key_as)
    with terminal.bar("predicting") as tick:
        found = score_labels(trained.method.to(terminal.device(device)), data, progress=tick)
    tables.write_predictions(output, found, checkpoint.provenance(trained, data))
    terminal.show(
        {"output": str(output), "entities": len(data), "columns": found.column_names, "run": trained.id}, json_
    )


@command
def evaluate(
    embeddings: Annotated[Path, typer.Argument(metavar="Z.parquet", help="Embeddings that `embed` wrote.")],
    labels: Annotated[str, typer.Argument(metavar="LABELS", help="Table with the key and the label.")],
    label: Annotated[str, typer.Option(help="Column to predict.")],
    key: Annotated[str | None, typer.Option(help="The key's name in LABELS, if it is another.")] = None,
    task: Annotated[str | None, typer.Option(help="binary, multiclass or numeric; inferred if not given.")] = None,
    folds: Annotated[int, typer.Option(help="Folds of the cross-validation.")] = terminal.default(score, "folds"),
    group: Annotated[str | None, typer.Option(help="Column of LABELS whose values are never split.")] = None,
    fractions: Annotated[str, typer.Option(help="Shares of the training labels: 1,0.25,0.05")] = "1",
    events: Annotated[str | None, typer.Option(help="Events, to stand aggregates beside the embedding.")] = None,
    time_format: TimeFormat = None,
    until: Until = None,
    label_time: Annotated[str | None, typer.Option(help="Column of LABELS: each label's own time.")] = None,
    holdout: Annotated[bool, typer.Option("--holdout", help="Test on entities that the encoder never saw.")] = False,
    seed: Annotated[int, typer.Option(help="Of folds, draws and boosting.")] = terminal.default(score, "seed"),
    json_: Json = False,
) -> None:
    """Say what an embedding is worth: on your labels, beside aggregates, in the same folds.

    Example: `eventvec evaluate embeddings.parquet labels.parquet --label churn --events events.parquet`
    """
    z = tables.read_embeddings(embeddings)
    table = tables.read_table(labels)
    joined = join_labels(z.keys, z.schema.key_out, table, label, table_key=key, group=group, time=label_time)
    rows = joined.positions
    tables.none_later(z, rows, until, joined.times)
    features, others = {"embedding": z.values[rows]}, tuple[str, ...]()
    if events is not None:
        with terminal.bar("aggregates") as tick:
            cut = until or z.metadata.get("until")
            own = (
                {}
                if joined.times is None
                else {z.schema.key: z.keys.take(pa.array(rows)), "time": joined.times.to_arrow()}
            )
            cutoffs = (pa.table(own), "time") if own else None
            data = tables.read(events, schema=z.schema, time_format=time_format, until=cut, cutoffs=cutoffs)
            if joined.times is None and data.fingerprint != z.metadata.get("fingerprint"):
                others = ("The aggregates are of other events than the embedding, or of more entities.",)
            data = tables.same_entities(data, z, rows)
            features["aggregates"] = embed_rows(Aggregates(z.schema), data, progress=tick).numpy()
    with terminal.bar("models") as tick:
        found = score(
            features, joined.labels, task=task, folds=folds, groups=joined.groups,
            fractions=terminal.numbers(fractions), holdout=tables.held_out(z)[rows] if holdout else None,
            seed=seed, label=label, taught=z.metadata.get("labels"), progress=tick,
        )  # fmt: skip
    found = replace(found, notes=(*joined.notes, *found.notes, *others))
    terminal.say(found.to_dict(), render(found), json_)


@command
def diagnose(
    events: Annotated[str, typer.Argument(metavar="EVENTS", help="Events: Parquet file, folder, glob, or CSV.")],
    key: Annotated[str, typer.Option(help="Column that names the entity.")],
    time: Annotated[str, typer.Option(help="Column that orders an entity's events.")],
    categorical: Annotated[str | None, typer.Option(help="Columns of codes, a,b,c; once listed, only these.")] = None,
    numeric: Annotated[str | None, typer.Option(help="Columns of numbers, a,b,c; once listed, only these.")] = None,
    time_format: TimeFormat = None,
    until: Until = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="HTML page to write.")] = None,
    entities: Annotated[int, typer.Option(help="Entities to look at.")] = terminal.default(look_into, "entities"),
    seed: Annotated[int, typer.Option(help="Of everything random.")] = terminal.default(look_into, "seed"),
    json_: Json = False,
) -> None:
    """Say which method's assumptions the events meet, and warn of columns that give the order away.

    Example: `eventvec diagnose events.parquet --key card --time when -o diagnose.html`
    """
    terminal.file(output, "diagnose.html")
    with terminal.bar("reading"):
        data = tables.read(
            events, key=key, time=time, time_format=time_format, until=until,
            categorical=terminal.names(categorical), numeric=terminal.names(numeric),
        )  # fmt: skip
    terminal.notes(data.notes)
    with terminal.bar("diagnosing") as tick:
        found = look_into(data, entities=entities, seed=seed, progress=tick)
    if output is not None:
        write_page(found, output)
    terminal.say(found.to_dict(), found.render(), json_)


@command
def doctor(json_: Json = False) -> None:
    """Show versions, devices, threads and extras, and whether a model trains on this machine.

    Example: `eventvec doctor`
    """
    terminal.show(examine(), json_)


def main() -> None:
    """Run the command line."""
    app()


FIXED = dict.fromkeys(("method", "data", "out", "resume", "config", "progress"))
"""Arguments of `fit` that no configuration sets."""


def _origin(settings: config.Table) -> checkpoint.Run | None:
    """Return the run that `[encoder] from` names, if it does, and make the table say what its encoder is."""
    if "from" not in settings.get("encoder", {}):
        return None
    origin = checkpoint.load(config.check(settings["encoder"]["from"], str, "encoder.from"))
    settings["encoder"] = checkpoint.encoder_table(origin, settings["encoder"])
    return origin


def _rows(
    trained: checkpoint.Run, events: str, until: str | None, labels: Path | None, label_time: str | None,
    time_format: str | None, key_as: str | None,
) -> Dataset:  # fmt: skip
    """Return the events that a run is to score, coded by its schema."""
    with terminal.bar("reading"):
        cutoffs = tables.open_cutoffs(labels, label_time)
        data = tables.read(
            events, schema=trained.schema, time_format=time_format, until=until, cutoffs=cutoffs, key_as=key_as
        )
    terminal.notes(data.notes)
    return data
