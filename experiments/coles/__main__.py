"""The tables and figures of the CoLES paper (Babaev et al. 2022), on any data set that has a configuration."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import torch

from eventvec.errors import ConfigError
from eventvec.models import model_files
from eventvec.views.sizes import slice_bounds
from experiments.coles import arms, published, texts
from experiments.coles import curves as step_curves
from experiments.coles.assumptions import assumptions_met
from experiments.coles.lengths import power_law
from experiments.coles.repetition import divergence_row
from experiments.coles.slicing import bounds, slice_lengths
from experiments.coles.study import CONTROL, SUPERVISED, TUNED, Study, kept, unit
from experiments.command_line import Row, run
from experiments.differences import Paired, paired, relative
from experiments.protocol import PaperResult, Part

FRACTIONS = (1.0, 0.25, 0.0625)
SELF_SUPERVISED = ("sop", "nsp", "rtd", "cpc", "coles")
SAMPLERS = (
    "random_samples", "capped_samples", "disjoint_samples", "disjoint_segments", "rejection_slices", "coles",
)  # fmt: skip
NEGATIVES = ("random_negatives", "distance_weighted")
KINDS, COUNTS = ("random", "distance", "hard"), (2, 5, 9)
"""The negatives that are compared at equal numbers, hard ones last."""
FINE_TUNED = tuple(f"{arm}{TUNED}" for arm in ("rtd", "cpc", "coles"))
NEED_NO_TRAINING = ("event count", "untrained event mean")
UNIT = ", unit length"
RAW_IN_THE_PAPER = ("rtd", "cpc", "untrained")
"""The arms whose embeddings are not normalised in the public code; on Retail none are."""


def table1(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """View sampling: random samples of two kinds, disjoint parts, two kinds of slices (cross-validation)."""
    study = _study(dataset, keep, small)
    rows = _compare(study, SAMPLERS, _seeds(seeds), published.TABLE1)
    return [{**row, "whole histories": _share_of_whole_histories(study, row["arm"])} for row in rows]


def shuffled(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Samples and slices whose events are in random order: what is left of their difference (cross-validation).

    Random samples of a history end with the same few events, and slices at different places. An encoder that reads the
    last events best can recognise samples by them. In random order it cannot.
    """
    return _compare(_study(dataset, keep, small), ("shuffled_samples", "shuffled_slices"), _seeds(seeds))


def table2(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Embeddings, opponents and networks trained on labels (test set), and each one's change in percent."""
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    networks = (SUPERVISED, CONTROL, *FINE_TUNED)
    embeddings = _embeddings(study, ("untrained", *SELF_SUPERVISED), runs)
    study.train(set(study.config["fine_tuning"].get("from", {}).values()), runs)
    study.tune(networks, runs)
    opponents = study.opponents(runs)
    aggregates = opponents["aggregates"][0]
    features: dict[str, Any] = {**opponents, **embeddings}
    for name in ("coles", f"coles{UNIT}"):
        both = [np.concatenate([z, aggregates], 1) for z in embeddings[name]]
        features[name.replace("coles", "coles + aggregates")] = both
    features |= {name: [study.trainer(name, seed) for seed in runs] for name in networks}
    result = study.scores(features)
    rows = []
    for name in (name for name in features if not name.endswith(UNIT)):
        baseline = SUPERVISED if name in networks else "aggregates"
        change = relative(result.scores(name, "test"), result.scores(baseline, "test"))
        rows.append({
            **_row(study, name, published.score(published.TABLE2, name, dataset), result, "test"),
            "against": baseline, "percent": change.mean, "percent ±": change.interval,
            **_leads("coles", name, result, "test"),
        })  # fmt: skip
    return rows


def gate(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Whether a data set can rank arms: is any arm clearly ahead of what needs no training (cross-validation)?

    The best of several arms is ahead by chance more often than one, so their intervals are those of as many looks. They
    are widened as normal intervals are: the part of the seeds, if they are few, is wider still.
    """
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    opponents = {name: values for name, values in study.opponents(runs).items() if name in NEED_NO_TRAINING}
    compared = tuple(dict.fromkeys((*SELF_SUPERVISED, *SAMPLERS, *NEGATIVES)))
    result = study.scores({**opponents, **_embeddings(study, compared, runs)})
    rows = [_row(study, name, None, result, "cv") for name in opponents]
    looks = _looks(len(compared))
    for arm in compared:
        leads = [paired(result.scores(arm, "cv"), result.scores(name, "cv")) for name in opponents]
        least = min(leads, key=lambda lead: lead.mean - looks * lead.interval)
        rows.append({
            **_row(study, arm, None, result, "cv"), "least lead": least.mean, "lead ±": least.interval,
            "ahead": least.mean > looks * least.interval,
        })  # fmt: skip
    passed = any(row.get("ahead") for row in rows)
    of_arms = ("least lead", "lead ±", "ahead")
    return [{**row, **{name: row.get(name) for name in of_arms}, "passed": passed} for row in rows]


def _looks(count: int) -> float:
    """Return by how much an interval is wider that holds for the best of several looks (Bonferroni)."""
    return NormalDist().inv_cdf(1 - 0.025 / count) / NormalDist().inv_cdf(0.975)


def foreseen(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Whether the assumption of each method foresees that it helps: what holds beside differences (cross-validation).

    CoLES should be ahead of what needs no training, rejection slices ahead of random slices, OCP ahead of an untrained
    encoder. A method helps if the interval of its lead lies above zero.
    """
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    opponents = {name: values for name, values in study.opponents(runs).items() if name in NEED_NO_TRAINING}
    compared = ("untrained", "rejection_slices", "ocp", "coles")
    result = study.scores({**opponents, **_embeddings(study, compared, runs)})
    best = max(opponents, key=lambda name: Paired(result.scores(name, "cv")).mean)
    cases = (("coles", best), ("rejection_slices", "coles"), ("ocp", "untrained"))
    rows = []
    for (arm, other), (assumption, met) in zip(cases, assumptions_met(study.data).items(), strict=True):
        lead = paired(result.scores(arm, "cv"), result.scores(other, "cv"))
        helps = lead.mean > lead.interval
        rows.append({
            "data": dataset, "assumption": assumption, "met": met, "arm": arm, "against": other,
            "ahead": lead.mean, "ahead ±": lead.interval, "helps": helps,
            "right": None if met is None else met == helps,
        })  # fmt: skip
    return rows


def table6(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Encoders: LSTM, GRU and transformers, trained by CoLES (cross-validation)."""
    compared = ("lstm", "transformer_paper", "transformer", "gru")
    return _compare(_study(dataset, keep, small), compared, _seeds(seeds), published.TABLE6)


def table7(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Losses: contrastive, the paper's other losses, and three later ones (cross-validation)."""
    later = ("nt_xent", "vicreg", "barlow_twins")
    compared = ("binomial_deviance", "histogram", "margin", "triplet", *later, "coles")
    return _compare(_study(dataset, keep, small), compared, _seeds(seeds), published.TABLE7)


def table8(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Negative sampling: random, distance-weighted, hard (cross-validation)."""
    compared = (*NEGATIVES, "coles")
    return _compare(_study(dataset, keep, small), compared, _seeds(seeds), published.TABLE8)


def negatives(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Kinds of negatives at equal numbers for each row, so that their losses have as many terms (cross-validation).

    Table 8 compares kinds whose numbers differ: a batch of 64 entities with five views has 1,600 hard negatives, and as
    many random ones as positive pairs, 640.
    """
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    compared = {(kind, count): arms.with_negatives(study.config, kind, count) for count in COUNTS for kind in KINDS}
    result = study.scores(_embeddings(study, list(compared.values()), runs))
    rows = []
    for (kind, count), arm in compared.items():
        lead = paired(result.scores(compared[KINDS[-1], count], "cv"), result.scores(arm, "cv"))
        rows.append({
            "negatives": count, "kind": kind, **_row(study, arm, None, result, "cv"),
            "hard ahead": lead.mean, "ahead ±": lead.interval, "clear": lead.clear,
        })  # fmt: skip
    return rows


def curves(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """CoLES, training on labels and fine-tuning, read at several numbers of steps (test set, all other labels)."""
    study, name = _study(dataset, keep, small), f"{dataset}_abc"
    wider = _study(name, keep, small) if name in arms.names() else None
    return step_curves.rows(study, wider, _seeds(seeds))


def precision(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Training with matrix products in bfloat16 beside float32 (cross-validation)."""
    return _compare(_study(dataset, keep, small), ("bfloat16", "coles"), _seeds(seeds))


def figure2(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Few labels: embeddings, fine-tuning and supervised training on shares of each fold's labels (test set).

    The shares are those of the paper on its data sets, and `FRACTIONS` on others.
    """
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    labels, curves = published.FIGURE2.get(dataset, ((), {}))
    shares = tuple(n / labels[-1] for n in labels)
    paper = {(share, arm): value for arm, curve in curves.items() for share, value in zip(shares, curve, strict=True)}
    fractions = (1.0, 0.5) if small else shares or FRACTIONS
    networks = (SUPERVISED, CONTROL, *(f"{arm}{TUNED}" for arm in ("cpc", "coles")))
    embeddings = _embeddings(study, ("untrained", "cpc", "coles"), runs)
    study.train(set(study.config["fine_tuning"].get("from", {}).values()), runs)
    study.tune(networks, runs, fractions)
    features: dict[str, Any] = {**study.opponents(runs), **embeddings}
    features |= {name: [study.trainer(name, seed) for seed in runs] for name in networks}
    result = study.scores(features, fractions)
    rows = []
    for share, name, n in dict.fromkeys((c.fraction, c.features, c.labels) for c in result.cells):
        if not name.endswith(UNIT):
            row = _row(study, name, paper.get((share, name)), result, "test", share)
            rows.append({**row, "share": share, "labels": n, **_leads("coles", name, result, "test", share)})
    return rows


def figure3(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """The lengths of histories beside a power law."""
    law = power_law(_study(dataset, keep, small).data.sequences.lengths)
    edges, counts, expected = law.histogram()
    return [
        {
            "data": dataset,
            "alpha": law.alpha,
            "events from": int(a),
            "below": int(b),
            "entities": int(n),
            "expected": None if np.isnan(e) else float(e),  # NaN below the lower bound of the power law
        }
        for a, b, n, e in zip(edges[:-1], edges[1:], counts, expected, strict=True)
    ]


def theorem1(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Theorem 1: its bounds under the power law that fits the lengths best, and how far slices change these lengths."""
    x = _study(dataset, keep, small).data.sequences
    law = power_law(x.lengths)
    distances = slice_lengths(x.lengths, slice_bounds(x)[0])
    return [{
        "data": dataset, "covered": law.tail / len(law.lengths), "met": law.met,
        **vars(bounds(law.alpha, law.shortest)),
        "rejection, these lengths": distances.rejection, "random, these lengths": distances.fixed,
    }]  # fmt: skip


def figure4(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """Repeatability: divergence of event types within one history and between histories of matched lengths."""
    data = _study(dataset, keep, small).data
    return [
        divergence_row(dataset, data, field.name, torch.Generator().manual_seed(_seeds(seeds)[0]))
        for field in data.schema.categorical
    ]


def figure4e(small: bool, seeds: str) -> list[Row]:
    """Repeatability of texts, the control of Figure 4: divergence of words within one text and between texts."""
    return texts.rows(small, _seeds(seeds)[0])


def figure5(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """The size of the embedding (cross-validation)."""
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    sizes = list(published.FIGURE5.get(dataset, {})) or [16, 32, 64, 128, 256]
    paper = {f"dim={size}": value for size, value in published.FIGURE5.get(dataset, {}).items()}
    compared = [f"dim={size}" for size in (sizes[:2] if small else sizes)]
    result = study.scores(_embeddings(study, compared, runs))
    return [_row(study, arm, paper.get(arm), result, "cv") for arm in compared]


def peer(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """CoLES beside pytorch-lifestream's, with the same events, size, epochs, slices and boosting (both splits)."""
    study, runs = _study(dataset, keep, small), _seeds(seeds)
    ours = [study.raw("coles", seed) for seed in runs]
    epochs = [len(model_files.read_info(study.run("coles", seed))["history"]) for seed in runs]
    theirs = [study.peer(seed, count) for seed, count in zip(runs, epochs, strict=True)]
    raw = {"pytorch-lifestream": theirs, "coles": ours}
    normalized = {f"{name}{UNIT}": [unit(z) for z in embeddings] for name, embeddings in raw.items()}
    result = study.scores({**raw, **normalized})
    return [
        {**_row(study, name, None, result, split), **_leads("coles", name, result, split)}
        for split in ("cv", "test")
        for name in raw
    ]


def figure7(small: bool, dataset: str, seeds: str, keep: str | None) -> list[Row]:
    """A map of the embeddings (t-SNE), and how often the nearest neighbour on it has the same label."""
    study = _study(dataset, keep, small)
    return [study.map(_seeds(seeds)[0])]


def _study(dataset: str, keep: str | None, small: bool) -> Study:
    if dataset not in arms.names():
        raise ConfigError(f"--dataset must be one of {', '.join(arms.names())}, got {dataset!r}")
    return kept(dataset, Path(keep or tempfile.mkdtemp(prefix="eventvec-coles-")), small)


def _seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--seeds must be whole numbers separated by commas, like 0,1,2, got {text!r}") from error


def _embeddings(study: Study, compared: Sequence[str], seeds: Sequence[int]) -> dict[str, list[Any]]:
    """Return the embeddings of arms, trained side by side, as they leave the encoder and at unit length."""
    study.train(compared, seeds)
    raw = {arm: [study.raw(arm, seed) for seed in seeds] for arm in compared}
    return {**raw, **{f"{arm}{UNIT}": [unit(z) for z in embeddings] for arm, embeddings in raw.items()}}


def _share_of_whole_histories(study: Study, arm: str) -> float:
    """Return the share of an arm's views that are the whole history of their entity."""
    views, source = study.views(arm)
    lengths = study.data.sequences.lengths[torch.from_numpy(study.trained_on())]
    return float((views.lengths == lengths[source]).double().mean())


def _compare(
    study: Study, compared: Sequence[str], seeds: Sequence[int], paper: published.Scores | None = None
) -> list[Row]:
    """Return a row per arm, embedded and boosted: the paper's score, ours, and the lead of the last arm over it."""
    result = study.scores(_embeddings(study, compared, seeds))
    return [
        {
            **_row(study, arm, published.score(paper or {}, arm, study.name), result, "cv"),
            **_leads(compared[-1], arm, result, "cv"),
        }
        for arm in compared
    ]


def _row(study: Study, name: str, paper: float | None, result: PaperResult, split: Part, share: float = 1.0) -> Row:
    """Return the score of a feature set beside the paper's, for embeddings also at unit length.

    The difference from the paper is that of the embedding as the public code has it.
    """
    ours = Paired(result.scores(name, split, share))
    published_form, unit_length = ours, dict[str, float | None]({"at unit length": None, "unit ±": None})
    if f"{name}{UNIT}" in result.names:
        at_unit_length = Paired(result.scores(f"{name}{UNIT}", split, share))
        unit_length = {"at unit length": at_unit_length.mean, "unit ±": at_unit_length.interval}
        if study.config["data"].get("normalize", True) and name not in RAW_IN_THE_PAPER:
            published_form = at_unit_length
    behind = None if paper is None else published_form.mean - paper
    of_paper = {"paper": paper, "ours − paper": behind} if study.name in published.PAPER else {}
    return {
        "data": study.name, "arm": name, "steps": study.steps(name), "events": study.events(name),
        "seeds": len(ours.runs), "split": split, **of_paper, "ours": ours.mean, "±": ours.interval, **unit_length,
    }  # fmt: skip


def _leads(first: str, second: str, result: PaperResult, split: Part, share: float = 1.0) -> Row:
    """Return the lead of one arm over another, paired over folds and seeds, and that at unit length.

    What has no embedding, such as aggregates, is compared with the arm at unit length too.
    """

    def lead(a: str, b: str) -> Paired:
        return paired(result.scores(a, split, share), result.scores(b, split, share))

    raw = lead(first, second)
    other = f"{second}{UNIT}" if f"{second}{UNIT}" in result.names else second
    at_unit_length = lead(f"{first}{UNIT}", other)
    return {
        f"{first} ahead": raw.mean, "ahead ±": raw.interval, "clear": raw.clear,
        "unit ahead": at_unit_length.mean, "unit ahead ±": at_unit_length.interval, "unit clear": at_unit_length.clear,
    }  # fmt: skip


TABLES = {
    "table1": table1, "shuffled": shuffled, "table2": table2, "table6": table6, "table7": table7, "table8": table8,
    "figure2": figure2, "figure3": figure3, "figure4": figure4, "figure4e": figure4e, "figure5": figure5,
    "figure6": figure2, "figure7": figure7, "peer": peer, "precision": precision, "gate": gate, "foreseen": foreseen,
    "theorem1": theorem1, "negatives": negatives, "curves": curves,
}  # fmt: skip

OPTIONS: dict[str, dict[str, Any]] = {
    "dataset": {"default": "online_retail", "help": f"one of: {', '.join(arms.names())}"},
    "seeds": {"default": "0", "help": "of training: 0,1,2"},
    "keep": {"default": None, "metavar": "FOLDER", "help": "folder for trained encoders, which are not trained again"},
}


def main() -> None:
    """Run the table that the command line names."""
    run("coles", TABLES, **OPTIONS)


if __name__ == "__main__":
    main()
