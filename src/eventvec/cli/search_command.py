"""`eventvec search`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pyarrow.parquet as pq
import typer

from eventvec import runs, searching, tables
from eventvec.cli import terminal
from eventvec.cli.application import Overwrite, command
from eventvec.cli.parameters import FILES, Json, event_tables, not_empty
from eventvec.errors import CheckpointError, ConfigError
from eventvec.files import whole
from eventvec.training.progress_bars import bar


@command
def search(
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="Embeddings that `embed` wrote, or an index.")],
    key: Annotated[
        str | None, typer.Option(metavar="KEY", callback=not_empty, help="Key of an entity, whose like are found.")
    ] = None,
    history: Annotated[
        str | None, typer.Option(callback=event_tables, help="Events of one entity, whose like are found; needs --run.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="Description of what is to be found; needs --run.")] = None,
    run: Annotated[Path | None, typer.Option(help="Run that made the vectors.")] = None,
    count: Annotated[int, typer.Option(help="Number of hits.")] = terminal.default(searching.search, "count"),
    among: Annotated[
        str | None, typer.Option(callback=not_empty, help="Table with the keys of the entities to search.")
    ] = None,
    events: Annotated[
        str | None, typer.Option(callback=event_tables, help=f"To show each hit's history. {FILES}")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the index to this file.")] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Make the index approximate, for millions of vectors; needs faiss.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Parquet file for the hits.")] = None,
    overwrite: Overwrite = False,
    json_: Json = False,
) -> None:
    """Find the entities whose vectors are nearest to that of a key, of a history, or of a description.

    Example: `eventvec search embeddings.parquet --key 4929000017 --events events.parquet`

    To keep an index that `update --index` brings up to date: `eventvec search embeddings.parquet --approximate --save
    cards.index`, then `eventvec search cards.index --key 4929000017`
    """
    queries = [query for query in (key, history, text) if query is not None]
    if not queries and save is None:
        raise ConfigError("say what to find: --key KEY, --history EVENTS or --text TEXT; or --save FILE for an index")
    for place in (save, output):
        if place is not None:
            tables.check_output(place, [index, run, history, events, among], overwrite=overwrite)
    searched = _index(index, approximate)
    if not queries:
        assert save is not None
        searched.save(save, overwrite=overwrite)
        terminal.show(
            {"index": str(save), "entities": len(searched), "dim": searched.z.shape[1], "recall": searched.recall},
            json_,
        )
        return
    trained = None if run is None else runs.load(run)
    with bar("searching"):
        hits = searching.search(
            searched, key=key, history=history, text=text, run=trained, count=count, among=among, events=events
        )
    if save is not None:  # last, so that a search that fails leaves nothing
        searched.save(save, overwrite=overwrite)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        with whole(output) as draft:
            pq.write_table(hits.to_arrow().replace_schema_metadata({tables.outputs.MARK: b"{}"}), draft)
    rows = hits.to_dicts()
    values = {"output": None if output is None else str(output), "searched": len(searched), "hits": rows}
    terminal.answer(json.loads(json.dumps(values, default=str)), terminal.table(rows), json_)


def _index(path: Path, approximate: bool) -> searching.Index:
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
    if approximate and read.inverted is None:
        raise ConfigError(f"{path} is an exact index; --approximate makes one of embeddings: give their Parquet file")
    return read
