"""What commands read beside the files of `workplace`: databases, an index, shards, hostile names and values."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

import duckdb
import polars as pl
import workplace
from deltalake import write_deltalake
from pages_law import PAYLOADS

import eventvec as ev
from eventvec import searching
from eventvec.engines.shards import embed_shards, update_shards

HOSTILE = f"code{PAYLOADS[0]}"
"""A column of the hostile table of events."""


@cache
def master() -> Path:
    """Return a folder with the files of the workplace and further ones; it is made once per process."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-inputs-")) / "work"
    atexit.register(shutil.rmtree, folder.parent, ignore_errors=True)
    shutil.copytree(workplace.master(), folder, symlinks=True)
    _databases(folder)
    _hostile(folder)
    events = folder / "events.parquet"
    run = ev.load(folder / "run")
    parts = ev.fit(ev.read(events, key="id", time="t"), method="coles", epochs=1, out=folder / "coles")
    ev.write(folder / "zc.parquet", parts.embed(events))
    searching.Index.of(ev.read_embeddings(folder / "z.parquet")).save(folder / "z.index")
    z = ev.read_embeddings(folder / "z.parquet")
    result = ev.evaluate(z, None, folder / "labels.parquet", "label", label_time="none", folds=2, models=["knn"])
    (folder / "label.json").write_text(json.dumps(result.to_dict()))
    run.read(events, store=folder / "stored")
    embed_shards(folder / "run", events, folder / "shards", engine="local", shards=2, workers=1)
    update_shards(
        folder / "run", events, folder / "states", folder / "fresh", engine="local", shards=2, workers=1
    )  # fmt: skip
    return folder


def _databases(folder: Path) -> None:
    """Write a DuckDB file with tables of others and one of eventvec, and a Delta Lake table of events."""
    events = pl.read_parquet(folder / "events.parquet").to_arrow()
    labels = pl.read_parquet(folder / "labels.parquet").to_arrow()
    with duckdb.connect(folder / "shop.db") as shop:
        for name, table in (("events", events), ("labels", labels), ("mine", labels)):
            shop.register("given", table)
            shop.execute(f"create table {name} as select * from given")
            shop.unregister("given")
    ev.write(f"duckdb://{folder / 'shop.db'}#z", ev.read_embeddings(folder / "z.parquet"))
    write_deltalake(str(folder / "lake"), events)


def _hostile(folder: Path) -> None:
    """Write events and labels whose names and values are payloads, and a run that was trained on them."""
    codes = [PAYLOADS[i % 5] for i in range(24 * 6)]
    plain = workplace.events(2).sort("id", "t")
    keys = {key: key + payload for key, payload in zip(workplace.KEYS, PAYLOADS, strict=False)}
    events = plain.with_columns(pl.col("id").replace(keys), code=pl.Series(codes))
    events = events.rename({"code": HOSTILE, "amount": f"amount{PAYLOADS[2]}"})
    events.write_parquet(folder / "hostile.parquet")
    words = [PAYLOADS[5 + i % 2] for i in range(24)]
    labels = pl.DataFrame({"id": events["id"].unique().sort(), f"label{PAYLOADS[3]}": words, "label": words})
    labels.write_parquet(folder / "hostile-labels.parquet")
    data = ev.read(events, key="id", time="t")
    ev.fit(data, method={"method": {"name": "ocp"}, "encoder": workplace.ENCODER}, epochs=1, out=folder / "hostile-run")
