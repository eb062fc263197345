"""The published run on a GPU: the files of TESRBench, TinyLlama in 4 bits, all baselines, five seeds.

It differs from the published code in this: the token table of a baseline is not trained, products are in bfloat16,
gradients are clipped at 1, the last partial batch of an epoch is dropped, baselines read as many tokens as they have
positions, and the best epoch is chosen on a random part of training and validation together, as large as the latter.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from experiments.command_line import Row
from experiments.tpp.arms import MINILM, Arm, similarities
from experiments.tpp.benchmarks import HOUR, benchmark
from experiments.tpp.published import ABLATIONS, EARTHQUAKES, MODELS, TUNED, UNTUNED, Score
from experiments.tpp.records import write_records
from experiments.tpp.scores import Scored, searched

ROOT = "tesrbench"
"""The folder of the published sets, below the one that EVENTVEC_DATA names."""
BACKBONES = dict(
    zip(
        MODELS,
        (
            "all-MiniLM-L12-v2", "all-mpnet-base-v2", "bge-large-en-v1.5", "mxbai-embed-large-v1",
            "multilingual-e5-large-instruct", "TinyLlama-1.1B-intermediate-step-1431k-3T", "TinyLlama-1.1B-Chat-v1.0",
        ),
        strict=True,
    )
)  # fmt: skip
"""The folder of each model, below the one that EVENTVEC_MODELS names."""
SEEDS = (0, 1, 2, 3, 4)


def full(small: bool, keep: Path) -> list[Row]:
    """Tables 6 to 14 by the published recipe: files of TESRBench, 4 bits on a GPU, 25 epochs, five seeds."""
    if not small:
        return [_row(table, arms, paper, small, keep) for table, arms, paper in published()]
    table, arms, paper = next(each for each in published() if each[1][0].data.endswith("us-earthquake"))
    arms = [replace(arm, backbone=MINILM, epochs=1) for arm in arms[:2]]
    data = benchmark(EARTHQUAKES, sequences=40, longest=5)
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ):
        write_records(data, Path(folder) / ROOT / "us-earthquake")
        os.environ["EVENTVEC_DATA"] = folder
        return [_row(table, arms, paper, small, keep)]


def published() -> Iterator[tuple[str, list[Arm], Score]]:
    """Yield each row of the tables: its title, its model for each seed, and its published score.

    Example:
        >>> title, arms, score = next(published())
        >>> title, arms[0].epochs, score
        ('Tables 6, 7, 13, 14: MiniLM-L12', 15, (0.501, 0.695))
    """
    for (folder, model), score in TUNED.items():
        yield f"Tables 6, 7, 13, 14: {model}", _seeds(_tuned(folder, model)), score
    for (folder, model), score in UNTUNED.items():
        yield f"Table 12: {model}", [replace(_tuned(folder, model), epochs=0)], score
    for (folder, name), score in ABLATIONS.items():
        chat = _tuned(folder, "TPP-Llama-Chat")
        option, _, value = name.partition("=")
        if option == "objective":
            yield f"Table 11: {name}", _seeds(replace(chat, method={option: value})), score
        elif value:
            reading = {**chat.reading, option: value}
            yield f"Tables 8 to 10: {name}", _seeds(replace(chat, reading=reading)), score


def _tuned(folder: str, model: str) -> Arm:
    """Return a model with the published settings: adapters for TinyLlama, else all weights but the token table."""
    data, backbone = f"{ROOT}/{folder}", BACKBONES[model]
    if model.startswith("TPP"):
        reading = {"dtype": "4bit", "unit": HOUR}
        return Arm(data, backbone, 25, 4e-4, batch_size=8, warmup=0.02, reading=reading)
    reading = {"reads": "serialised", "unit": HOUR}
    return Arm(data, backbone, 15, 2e-5, 0, batch_size=8, warmup=0.1, reading=reading, fit={"optimizer": "adamw"})


def _seeds(arm: Arm) -> list[Arm]:
    return [replace(arm, seed=seed) for seed in SEEDS]


def _row(title: str, arms: Sequence[Arm], paper: Score, small: bool, keep: Path) -> Row:
    """Return one row, the mean over seeds.

    The variance of the mean is that over histories, by the jackknife, and that between seeds over their number.
    """
    of_seeds = [searched(similarities(arm, small, keep)["test"]) for arm in arms]
    row: Row = {"data": arms[0].data.partition("/")[2], "model": title, "seeds": len(arms)}
    for name, scores, published_score in zip(("MRR", "recall@5"), zip(*of_seeds, strict=True), paper, strict=True):
        mean = Scored(np.mean([each.value for each in scores]), np.mean([each.without for each in scores], 0))
        between = np.var([each.value for each in scores], ddof=1) / len(scores) if len(scores) > 1 else 0.0
        half_width = float(np.hypot(mean.half_width, 1.96 * np.sqrt(between)))
        row |= {
            f"paper {name}": published_score, name: float(mean.value), f"± {name}": half_width,
            f"{name} difference": float(mean.value) - published_score,
        }  # fmt: skip
    return row
