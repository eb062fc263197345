"""Further commands on a run or its vectors: `card`, `decide`, `export`, `influence`, `search` and `serve`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from eventvec import attribution, models, predicting, reporting, searching, tables
from eventvec.attribution.influence_options import InfluenceOptions
from eventvec.cli import terminal
from eventvec.cli.application import Overwrite, RunFolder, command
from eventvec.cli.event_inputs import on_device, read_events
from eventvec.cli.parameters import (
    FILES,
    Device,
    EventsArgument,
    FeatureTables,
    Full,
    Json,
    event_tables,
    events_option,
    given,
    named_tables,
    table_output,
    takes,
    text_argument,
    text_option,
)
from eventvec.errors import CheckpointError, ConfigError
from eventvec.files import write_text
from eventvec.options import gather, those_of
from eventvec.predicting.decision_options import DecisionOptions
from eventvec.serving.serve_options import ServeOptions
from eventvec.tables.read_options import Cuts, Storage, TableFormat
from eventvec.training.progress_bars import bar


@command
def card(
    run: RunFolder,
    evaluations: Annotated[
        list[Path] | None, typer.Argument(metavar="[EVALUATION.json]…", help="What `evaluate --json` printed.")
    ] = None,
    events: Annotated[str | None, events_option(help=f"To say what most histories are like. {FILES}")] = None,
    output: Annotated[Path | None, typer.Option("--out", "-o", help="Markdown file to write.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Replace the card in the model folder, README.md.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Print the model card of a run: data, settings, scores, limits, and how to use it.

    Example: `eventvec card run churn.json --save`, after `eventvec evaluate … --json > churn.json`
    """
    if output is not None and save:
        raise ConfigError("give -o FILE or --save, not both; without them the card is printed")
    if output is not None:
        tables.check_output(output, [run, events, *(evaluations or ())], overwrite=overwrite)
    if events is None:
        text = models.card(run, evaluations or (), save=save)
    else:
        trained = models.load(run)
        text = models.card(trained, evaluations or (), events=read_events(trained, events, {}), save=save)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_text(output, text)
    elif not save:
        terminal.say(text.removesuffix("\n"))


@command
@takes(DecisionOptions, TableFormat, Storage)
def decide(
    run: RunFolder,
    action: Annotated[float, typer.Option(help="What one action costs, above 0.")],
    case: Annotated[float, typer.Option(help="What one case costs, above 0, in the same unit.")],
    events: Annotated[str | None, typer.Argument(metavar="EVENTS", callback=event_tables, help=FILES)] = None,
    labels: Annotated[
        str | None, text_argument(metavar="LABELS", help="Labels of these events that are new to the model.")
    ] = None,
    saves: Annotated[
        float | None, typer.Option(help="The share of the cases that an action prevents, in (0, 1]. Default: 1.0.")
    ] = None,
    label: Annotated[str | None, text_option(help="Label to decide on, if the model predicts several.")] = None,
    of: Annotated[str | None, text_option(help="Class that is a case; by default the greater of two.")] = None,
    rule: Annotated[
        str | None, text_option(help="Table of your own rule: the key, and a column of 0 and 1; needs LABELS.")
    ] = None,
    net_benefit: Annotated[bool, typer.Option("--net-benefit", help="Add the decision curve.")] = False,
    static: Annotated[str | None, text_option(help="Table of the static columns that the model reads.")] = None,
    known: Annotated[
        str | None, text_option(help="Table of the labels of all times, if the model reads earlier ones.")
    ] = None,
    features: FeatureTables = None,
    output: Annotated[Path | None, typer.Option("--out", "-o", help="HTML page to write, with the curves.")] = None,
    device: Device = "auto",
    overwrite: Overwrite = False,
    full: Full = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Say on whom to act: from which probability on it pays, and what that costs beside acting on nobody or everybody.

    Without EVENTS and LABELS, it is judged on the rows of the model's own labels that the model did not learn from.

    Example: `eventvec decide churn-model --action 1 --case 40 --saves .3`

    On later labels, beside a rule of yours: `eventvec decide churn-model events.parquet labels.parquet --action 1
    --case 40 --saves .3 --rule rule.parquet`
    """
    named = named_tables(features)
    if output is not None:
        tables.check_output(output, [run, events, labels, rule, static, known, *named.values()], overwrite=overwrite)
        reporting.need_packages()
    asked = given(
        events=events, labels=labels, saves=saves, label=label, of=of, rule=rule, static=static, known=known,
        features=named or None,
    )  # fmt: skip
    with bar("predicting") as tick:
        result = predicting.decide(
            on_device(run, device), action=action, case=case, net_benefit=net_benefit, progress=tick,
            **asked, **options,
        )  # fmt: skip
    terminal.decide(result, json_, full, output, overwrite)


@command
def export(
    run: RunFolder,
    output: Annotated[Path, typer.Option("--out", "-o", help="ONNX file to write.")],
    states: Annotated[bool, typer.Option(help="Continue from stored states, or else read whole histories.")] = True,
    overwrite: Overwrite = False,
    json_: Json = False,
) -> None:
    """Write the encoder of a run and its predictions as an ONNX file, which scores events without torch.

    A GRU or an LSTM continues from stored states.

    Example: `eventvec export run -o encoder.onnx`
    """
    from eventvec import exporting

    tables.check_output(output, [run], overwrite=overwrite)
    about = exporting.to_onnx(models.load(run), output, states=states, overwrite=overwrite)
    rows = {
        "file": str(output),
        "MB": round(output.stat().st_size / 1e6, 1),
        "run": about["run"],
        "numbers per vector": about["dim"],
        "numbers per state": about["stored_dim"],
        "labels": ", ".join(label["name"] for label in about["labels"]) or "none",
        "columns": ", ".join(column["name"] for column in about["columns"]),
    }
    terminal.show(about if json_ else rows, json_)


@command
@takes(Cuts, TableFormat)
def explain(
    run: RunFolder,
    events: Annotated[str | None, typer.Argument(callback=event_tables, help=FILES)] = None,
    label: Annotated[str | None, text_option(help="Label to explain, if the model predicts several.")] = None,
    key: Annotated[str | None, text_option(metavar="KEY", help="Explain this entity alone.")] = None,
    of: Annotated[str | None, text_option(help="Class to explain, by default the second of two.")] = None,
    top: Annotated[int, typer.Option(help="How many reasons are told of each row.")] = 5,
    static: Annotated[str | None, text_option(help="Table of the static columns that the model reads.")] = None,
    labels: Annotated[
        str | None, text_option(help="Table of the labels that are known, if the model reads earlier ones.")
    ] = None,
    features: FeatureTables = None,
    full: Full = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Show why a model predicts what it does: what each feature adds to a prediction, or takes from it.

    Example: `eventvec explain churn-model events.parquet --key 4443`

    Without events, what the model is worth, and which features drive it: `eventvec explain churn-model`
    """
    from eventvec.predicting.explanation import explain as explained

    asked = given(
        label=label, key=key, of=of, static=static, labels=labels, features=named_tables(features) or None
    )  # fmt: skip
    with bar("explaining") as tick:
        result = explained(models.load(run), events, top=top, progress=tick, **asked, **options)
    terminal.decide(result, json_, full)


@command
@takes(InfluenceOptions, Cuts, TableFormat)
def influence(
    run: RunFolder,
    events: EventsArgument,
    labels: Annotated[str | None, text_argument(metavar="LABELS", help="Table with the key and the label.")] = None,
    label: Annotated[str | None, text_option(help="Column to predict.")] = None,
    entity: Annotated[str | None, text_option(metavar="KEY", help="Measure this entity alone.")] = None,
    device: Device = "auto",
    full: Full = False,
    json_: Json = False,
    **options: Any,
) -> None:
    """Show what drives a vector: the change of a score when a field or a period of the events is left out.

    Example: `eventvec influence run events.parquet labels.parquet --label churn`

    Without labels, it shows how far the vectors move: `eventvec influence run events.parquet`
    """
    trained = on_device(run, device)
    reading = those_of(options, Cuts, TableFormat)
    if "cutoffs" not in reading:
        reading.pop("inclusive", None)
    data = read_events(trained, events, reading)
    with bar("embedding") as tick:
        measuring = those_of(options, InfluenceOptions)
        result = attribution.influence(trained, data, labels, label, entity=entity, progress=tick, **measuring)
    terminal.decide(result, json_, full)


@command
def search(
    index: Annotated[
        Path, typer.Argument(metavar="INDEX", help="Embeddings that `embed` wrote, or an index, of `describe` too.")
    ],
    key: Annotated[str | None, text_option(metavar="KEY", help="Key of an entity, whose like are found.")] = None,
    history: Annotated[
        str | None, events_option(help="Events of one entity, whose like are found; needs --model.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="What is to be found, in words; needs --events, or an index of sentences.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Model that made the vectors; with --text, one trained on texts.")
    ] = None,
    among: Annotated[str | None, text_option(help="Table with the keys of the entities to search.")] = None,
    events: Annotated[str | None, events_option(help=f"To show each hit's history. {FILES}")] = None,
    count: Annotated[
        int | None,
        typer.Option(help="How many hits to return, at least 1; fewer if no more entities are searched. Default: 10."),
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the index to this file.")] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Make the index approximate, for millions of vectors; needs faiss.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--out", "-o", callback=table_output, help="Parquet file for the hits.")
    ] = None,
    overwrite: Overwrite = False,
    full: Full = False,
    json_: Json = False,
) -> None:
    """Find the entities that are most like that of a key, like a history, or as words say.

    Example: `eventvec search embeddings.parquet --key 4929000017 --events events.parquet`

    By words, with the index that `eventvec describe --save` wrote: `eventvec search cards.sentences --text "a long
    silence"`

    To keep an index that `update --index` brings up to date: `eventvec search embeddings.parquet --approximate --save
    cards.index`, then `eventvec search cards.index --key 4929000017`
    """
    queries = [query for query in (key, history, text) if query is not None]
    if not queries and save is None:
        raise ConfigError("say what to find: --key KEY, --history EVENTS or --text TEXT; or --save FILE for an index")
    for place in (save, output):
        if place is not None:
            tables.check_output(place, [index, model, history, events, among], overwrite=overwrite)
    searched = _index(index, approximate)
    if save is not None and isinstance(searched, searching.SentenceIndex):
        raise ConfigError(f"{index} is an index of sentences; --save keeps an index of embeddings")
    if save is not None and not queries and isinstance(searched, searching.Index):
        searched.save(save, overwrite=overwrite)
        terminal.show(
            {"index": str(save), "entities": len(searched), "dim": searched.z.shape[1], "recall": searched.recall},
            json_,
        )
        return
    trained = None if model is None else models.load(model)
    asked = given(key=key, history=history, text=text, model=trained, among=among, events=events, count=count)
    with bar("searching"):
        hits = searching.search(searched, **asked)
    if save is not None:  # last, so a search that fails leaves nothing
        searched.save(save, overwrite=overwrite)
    if output is not None:
        tables.outputs.write_frame(output, hits.frame())
        hits = replace(hits, facts={"output": str(output), **hits.facts})
    terminal.decide(hits, json_, full)


def _index(path: Path, approximate: bool) -> searching.Index | searching.SentenceIndex:
    """Return the index in a file, or one of the embeddings in a file or a folder of shards."""
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; give embeddings that `eventvec embed` wrote, or an index")
    if not path.is_file() and not path.is_dir():
        raise CheckpointError(f"{path} is a pipe or a device; give embeddings that `eventvec embed` wrote, or an index")
    has_vectors = path.is_dir()  # a folder of shards
    if not has_vectors:
        with path.open("rb") as file:
            has_vectors = file.read(4) == b"PAR1"
    if has_vectors:
        with bar("indexing"):
            return searching.Index.of(tables.read_embeddings(path), approximate=approximate)
    read = searching.read_index(path)
    if approximate and not (isinstance(read, searching.Index) and read.inverted is not None):
        raise ConfigError(f"{path} is an exact index; --approximate makes one of embeddings: give their Parquet file")
    return read


@command
@takes(ServeOptions)
def serve(
    run: RunFolder,
    state: Annotated[Path, typer.Option(help="State store of the run; created if it does not exist.")],
    device: Device = "auto",
    **options: Any,
) -> None:
    """Serve fresh vectors and predictions over HTTP: an event in, an answer out. SIGTERM or Ctrl-C ends it.

    Example: `eventvec serve run --state state.db`, then `curl localhost:8000/vectors/KEY`; `/docs` has the other routes

    For other machines: `--host 0.0.0.0`, with a token in the variable EVENTVEC_TOKEN
    """
    from eventvec.serving.limits import read_token
    from eventvec.serving.server import serve as serve_run

    read_token(gather(options, ServeOptions).host)
    tables.check_place(state)
    trained = on_device(run, device)
    serve_run(trained, state, ready=lambda address: terminal.say(f"run {trained.id} at {address}"), **options)
