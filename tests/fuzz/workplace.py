"""A small folder with everything that commands read: events, labels, trained runs, embeddings, a store, other files.

It is made once per process, and each case works on a copy.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl
from draws import write_csv

import eventvec as ev

KEYS = [f"secret-{i:04}" for i in range(24)]
ENCODER = {"dim": 4}
TIMES = {"timestamp": pl.Datetime("us"), "integer": pl.Int64, "float": pl.Float64}


def events(seed: int = 0, kind: str = "timestamp", text_keys: bool = True) -> pl.DataFrame:
    """Return events of 24 entities, in random order, without ties."""
    rng = np.random.default_rng(seed)
    at = (1_704_067_200 + rng.permutation(24 * 6 * 3)[: 24 * 6] * 3600) * (10**6 if kind == "timestamp" else 1)
    ids = np.repeat(np.arange(24), 6)
    return pl.DataFrame(
        {
            "id": [KEYS[i] for i in ids] if text_keys else 770_012_345 + 7919 * ids,
            "t": pl.Series(at).cast(TIMES[kind]),
            "code": rng.choice(list("abc"), len(at)),
            "amount": rng.normal(0, 20, len(at)),
        }
    ).sample(fraction=1, shuffle=True, seed=seed)


@cache
def run(kind: str = "timestamp", seed: int = 0, encoder: str = "gru") -> ev.Model:
    """Return a tiny trained run with a folder, for times of a kind.

    `coles` is this method with its default parts, and `labels` predicts a label from blocks without training.
    """
    data = ev.read(events(seed, kind), key="id", time="t")
    folder = Path(tempfile.mkdtemp(dir=made_once("fuzz-runs-"))) / "run"
    if encoder == "labels":
        table = pl.DataFrame({"id": data.keys.to_pylist(), "odd": [place % 2 == 1 for place in range(len(data))]})
        return ev.fit(data, labels=table, label="odd", label_time="none", out=folder)
    if encoder == "coles":
        tables: dict[str, Any] = {"method": {"name": "coles"}, "encoder": ENCODER}
    else:
        options = {"name": encoder, **ENCODER, **({"heads": 2} if encoder == "set" else {})}
        tables = {"method": {"name": "ocp"}, "encoder": options}
    return ev.fit(data, method=tables, epochs=1, seed=seed, out=folder)


@cache
def made_once(prefix: str) -> Path:
    """Return a folder that is deleted at the end of the process."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def onnx(run_path: Path) -> str:
    """Return the ONNX file of a run that stands in a folder of its own."""
    path = run_path.with_name("encoder.onnx")
    ev.to_onnx(ev.load(run_path), path)
    return str(path)


@cache
def master() -> Path:
    """Return the folder."""
    folder = made_once("fuzz-workplace-")
    table, rng = events(), Random(0)
    table.write_parquet(folder / "events.parquet")
    write_csv(table.to_arrow(), folder / "events.csv")
    events(1).write_parquet(folder / "other.parquet")
    later = table.with_columns(pl.col("t") + pl.duration(days=99))
    later[:40].write_parquet(folder / "later.parquet")
    labels = pl.DataFrame(
        {
            "id": KEYS, "label": ["no", "yes"] * 12, "score": [rng.gauss(0, 1) for _ in KEYS], "one": ["x"] * 24,
            "group": [i // 3 for i in range(24)], "decided": [table["t"].max()] * 24,
        }
    )  # fmt: skip
    labels.write_parquet(folder / "labels.parquet")
    write_csv(labels.to_arrow(), folder / "labels.csv")
    data = ev.read(folder / "events.parquet", key="id", time="t", holdout=0.25)
    tables: dict[str, Any] = {"method": {"name": "ocp"}, "encoder": ENCODER}
    trained = ev.fit(data, method=tables, epochs=1, out=folder / "run")
    ev.fit(ev.read(events(1), key="id", time="t"), method=tables, epochs=1, out=folder / "run2")
    labelled = ev.attach(data, labels, {"label": "categorical"}, fitting=ev.Fitting(min_count=1))
    supervised = {"method": {"name": "supervised", "label": "label"}, "encoder": ENCODER}
    tuned = ev.fit(labelled, method=supervised, epochs=1, out=folder / "tuned")
    begun = ev.fit(data, method={**tables, "encoder": {"name": "lstm", **ENCODER}}, epochs=1, out=folder / "lstm")
    ev.fit(data, method={"method": {"name": "next_event"}, "encoder": ENCODER}, epochs=1, out=folder / "judge")
    z = trained.embed(folder / "events.parquet")
    ev.write(folder / "z.parquet", z)
    times = table["t"].sort()
    months = pl.DataFrame({"month": [times[int(share * (len(times) - 1))] for share in (0.3, 0.6, 0.9)]})
    monthly = labels.select("id", "group", "score").join(months, how="cross")
    monthly = monthly.with_columns(label=pl.Series([rng.random() < 0.5 for _ in range(72)]), weight=pl.lit(0.5))
    monthly.write_parquet(folder / "months.parquet")
    ev.write(folder / "zm.parquet", trained.embed(folder / "events.parquet", cutoffs=monthly, cutoff_column="month"))
    ev.write(folder / "wide.parquet", begun.embed(folder / "events.parquet"), wide=True)
    ev.write(folder / "p.parquet", ev.predict(tuned, ev.read(folder / "events.parquet", schema=tuned.schema)))
    ev.update(trained, folder / "events.parquet", folder / "state.db")
    ev.update(begun, folder / "events.parquet", folder / "lstm.db")
    (folder / "mine.txt").write_text("dear diary")
    (folder / "empty").touch()
    (folder / "broken.parquet").write_bytes((folder / "events.parquet").read_bytes()[:-20])
    (folder / "broken.csv").write_text('id,t,code,amount\n"a,2024-01-01,x\n1,2,3,4,5,6\n')
    (folder / "folder").mkdir()
    (folder / "folder" / "events.parquet").write_bytes((folder / "events.parquet").read_bytes())
    (folder / "config.toml").write_text(
        '[data]\npath = "events.parquet"\nkey = "id"\ntime = "t"\n[encoder]\ndim = 4\n[method]\nname = "ocp"\n'
    )
    (folder / "broken.toml").write_text("[data\npath = 3")
    (folder / "link.parquet").symlink_to("events.parquet")
    (folder / "dangling.parquet").symlink_to("nowhere.parquet")
    (folder / "runlink").symlink_to("run")
    (folder / "hostile\nname.parquet").write_bytes((folder / "events.parquet").read_bytes())
    return folder
