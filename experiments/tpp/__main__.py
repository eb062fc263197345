"""Search by description (Liu and Quan 2024): three benchmarks, and Tables 6 to 14 on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np

from eventvec.views.counterfeits import Exchanged
from experiments.command_line import Row, run
from experiments.jobs import side_by_side
from experiments.tpp.apart import perfect_apart
from experiments.tpp.arms import BY_OTHERS, Arm, Array, Similarities, problem, similarities
from experiments.tpp.benchmarks import SEQUENCES, SETS, Benchmark, benchmark, reworded
from experiments.tpp.described import FACTS, by_sentences, counterfeits_by_sentences
from experiments.tpp.discrimination import bag_of_words, fits, shares_of_others
from experiments.tpp.facts import facts
from experiments.tpp.full import full
from experiments.tpp.published import ABLATIONS, BADGES, EARTHQUAKES, MIXED, OURS, TUNED, UNTUNED, Score
from experiments.tpp.quality import quality
from experiments.tpp.scores import Scored, perfect_reader, searched, share_told_apart, told_apart_by_others
from experiments.tpp.sentences import parse
from experiments.tpp.settings import (
    LATE,
    LLAMA,
    SERIALISED,
    TRIALS,
    ablations,
    by_others,
    competing,
    longer,
    more_pairs,
    told_counterfeits,
    tuned,
    untuned,
)
from experiments.tpp.truth import History, holds
from experiments.tpp.words import Fusion, chosen, trials

NAMES = {SERIALISED: "MiniLM-L12", LLAMA: "TPP-Llama"}
"""The row of the paper's tables that a model of ours stands beside."""
BAGS = ("bag of words", "bag of type names")
"""If no model beats both on a set, the set says nothing about order and time, and is void."""
PERFECT, EVERY_FACT = "perfect reader", "reader of every fact"
"""Who knows the facts that a description states, and who knows all that hold of the described history."""


def describe(small: bool, keep: Path) -> list[Row]:
    """The three benchmarks: how many histories each description fits, and what readers without training find by it."""
    return [row for name in SETS for row in described(benchmark(name, sequences=30 if small else SEQUENCES))]


def table3(small: bool, keep: Path) -> list[Row]:
    """Tables 3 and 4: what can be computed of the quality of descriptions without a judge, and the judges' scores."""
    return [row for name in SETS for row in quality(benchmark(name, sequences=30 if small else SEQUENCES))]


def described(data: Benchmark) -> list[Row]:
    """Return one row per reader, all of which search the test part."""
    histories = [History(names, times) for _, names, times in data.histories()]
    true = [holds(text, history) for text, history in zip(data.descriptions, histories, strict=True)]
    others = shares_of_others(_fit(data))
    about = {
        "data": data.name, "sequences": len(data), "types": data.events["type_text"].n_unique(),
        "sentences": float(np.mean([len(parse(text)) for text in data.descriptions])),
        "distinct": len(set(data.descriptions)), "true": float(np.mean(true)),
        "fits_median": float(np.median(others)), "fits_mean": float(np.mean(others)),
    }  # fmt: skip
    return [{**about, **_reader(data, reader, scores)} for reader, scores in readers(data).items()]


def readers(data: Benchmark) -> dict[str, tuple[Scored, Scored]]:
    """Return how well readers without training find the test part."""
    return {PERFECT: perfect_reader(_fit(data)), **bags(data)}


def bags(data: Benchmark) -> dict[str, tuple[Scored, Scored]]:
    """Return how well the bags of words find the test part."""
    texts, types = data.serialised(), data.events["type_text"].unique().to_list()
    queries, corpus = [data.descriptions[i] for i in data.queries], [texts[i] for i in data.split.test]
    background = [texts[i] for i in data.split.training]
    return {
        "bag of words": bag_of_words(queries, corpus, background),
        "bag of type names": bag_of_words(queries, corpus, background, types, free=data.by_others > 0),
    }


def choose(small: bool, keep: Path) -> list[Row]:
    """All trials: the mean reciprocal rank on the validation part, after the epoch with the best one."""
    arms = {str(arm): arm for arm in TRIALS[: 1 if small else None]}
    return [
        {
            "trial": name, "validation MRR": max(about["validation"]), "epoch": about["epoch"],
            "last epoch": about["validation"][-1], "trained weights": about["weights"], "seconds": about["seconds"],
        } for name, about in ((name, each["about"]) for name, each in _similarities(arms, small, keep).items())
    ]  # fmt: skip


def table6(small: bool, keep: Path) -> list[Row]:
    """Tables 6, 13 and 14: tuned models on each set, and readers without training."""
    return [row for data in (SETS if not small else (BADGES,)) for row in _compared(data, small, keep)]


def table7(small: bool, keep: Path) -> list[Row]:
    """Table 7: tuned models on 30 % of each set together."""
    return _compared(MIXED, small, keep)


def table8(small: bool, keep: Path) -> list[Row]:
    """Table 8: only the times or only the texts of events are read."""
    options = ({"reads": "time"}, {"reads": "text"})
    return [row for data in _ablation_sets(small) for row in _ablated(data, options, small, keep)]


def table9(small: bool, keep: Path) -> list[Row]:
    """Table 9: the hidden states that are pooled."""
    return _ablated(EARTHQUAKES, ({"hidden": "time"}, {"hidden": "time_and_type"}), small, keep)


def table10(small: bool, keep: Path) -> list[Row]:
    """Table 10: how hidden states are pooled."""
    return _ablated(EARTHQUAKES, ({"pooling": "max"}, {"pooling": "last"}), small, keep)


def table11(small: bool, keep: Path) -> list[Row]:
    """Table 11: the mean squared error of matched pairs instead of the contrastive loss."""
    return [row for data in _ablation_sets(small) for row in _ablated(data, ({"objective": "mse"},), small, keep)]


def table12(small: bool, keep: Path) -> list[Row]:
    """Table 12: models before tuning, and random weights."""
    rows = []
    for data in (BADGES,) if small else (*SETS, MIXED):
        arms = _few(untuned(data), small)
        rows += _rows(problem(data, small), arms, small, keep, _paper(UNTUNED, data))
    return rows


def pairs(small: bool, keep: Path) -> list[Row]:
    """The GRU with a frozen MiniLM, trained on more pairs of the same source; the test part is the same."""
    arms = _few(more_pairs(BADGES), small)
    data = problem(BADGES, small)
    rows = _rows(data, arms, small, keep, {}, bag=_better_bag(readers(data)))
    trained = [len(problem(arm.data, small).split.training) for arm in arms.values()]
    return [{"pairs": count, **row} for count, row in zip(trained, rows, strict=True)]


def steps(small: bool, keep: Path) -> list[Row]:
    """TPP for the paper's 25 epochs, with the validation after each; hours of a core, so for a GPU."""
    arms = _few(longer(BADGES), small)
    rows = _rows(problem(BADGES, small), arms, small, keep, {}, bag=_better_bag(readers(problem(BADGES, small))))
    trained = _similarities(arms, small, keep)
    return [
        {
            "pairs": len(problem(arm.data, small).split.training), "epochs": arm.epochs, **row,
            "validation": " ".join(f"{score:.3f}" for score in trained[name]["about"]["validation"]),
        } for (name, arm), row in zip(arms.items(), rows, strict=True)
    ]  # fmt: skip


def counterfeits(small: bool, keep: Path) -> list[Row]:
    """How often a description is closer to its history than to one with exchanged types or intervals (chance 0.5)."""
    rows = []
    for name in (EARTHQUAKES,) if small else (BADGES, EARTHQUAKES):
        data = problem(name, small)
        trained = _similarities(_few(told_counterfeits(name), small), small, keep)
        trained |= counterfeits_by_sentences(data)
        for exchanged in get_args(Exchanged):
            about = {"data": name, "exchanged": exchanged}
            rows.append({**about, "model": PERFECT, **_told_apart(perfect_apart(data, exchanged), None)})
            for model, z in trained.items():
                read = z["test"], z[exchanged], z[f"{exchanged} differ"]
                scores = share_told_apart(*read), told_apart_by_others(*read)
                rows.append({**about, "model": model, **_told_apart(*scores)})
    return rows


def words(small: bool, keep: Path) -> list[Row]:
    """Search by words: sentences that need no training, trained models, and both together, in two wordings."""
    searches = _searches(small, keep)
    fused = chosen(trials([similarities for _, similarities in searches]))
    return [
        row for data, similarities in searches for wording, of in (("test", data), ("reworded", reworded(data)))
        for row in _worded(of, wording, similarities, fused, {PERFECT: perfect_reader(_fit(of))})
    ]  # fmt: skip


def others(small: bool, keep: Path) -> list[Row]:
    """Search for descriptions by another author, and for our own of the same histories among the same candidates."""
    rows = []
    for name in (EARTHQUAKES,) if small else SETS:
        data, arms = problem(f"{name}{BY_OTHERS}", small), by_others(name)
        similarities = {**by_sentences(data), **_similarities(arms, small, keep)}
        ours = reworded(data)
        rows += _worded(data, "test", similarities, (), {EVERY_FACT: perfect_reader(_facts_fit(data))})
        rows += _worded(ours, "reworded", similarities, (), {PERFECT: perfect_reader(_fit(ours))})
    return rows


def untrained(small: bool, keep: Path) -> list[Row]:
    """The rows of `words` that need no training, with the kinds of sentences of today and with the sixteen earlier."""
    rows = []
    for name in (EARTHQUAKES,) if small else SETS:
        data = problem(name, small)
        similarities = by_sentences(data)
        for wording, of in (("test", data), ("reworded", reworded(data))):
            rows += _worded(of, wording, similarities, (), {PERFECT: perfect_reader(_fit(of))})
    return rows


def fusions(small: bool, keep: Path) -> list[Row]:
    """All trials of fusion: the mean reciprocal rank on the rows that each training held out."""
    searches = _searches(small, keep)
    names, tried = [data.name for data, _ in searches], trials([similarities for _, similarities in searches])
    best = chosen(tried)
    return [
        {**fusion._asdict(), **dict(zip(names, scores, strict=True)), "mean": np.mean(scores), "chosen": fusion in best}
        for fusion, scores in tried
    ]


def _searches(small: bool, keep: Path) -> list[tuple[Benchmark, dict[str, Similarities]]]:
    """Return what trained models and sentences find similar in each set."""
    searches = []
    for name in (EARTHQUAKES,) if small else SETS:
        data, trained = problem(name, small), _similarities(competing(name), small, keep)
        searches.append((data, {**by_sentences(data, trained[LATE]["held out rows"]), **trained}))
    return searches


def _worded(
    of: Benchmark,
    wording: str,
    similarities: Mapping[str, Similarities],
    fused: Sequence[Fusion],
    bounds: Mapping[str, tuple[Scored, Scored]],
) -> list[Row]:
    """Return one row per search of a test part, by descriptions in one of the wordings."""
    scores = bags(of)
    bag = _better_bag(scores)
    scores |= {name: searched(similar[wording][: len(of.queries)]) for name, similar in similarities.items()}
    scores |= {str(fusion): searched(fusion(similarities, wording)) for fusion in fused}
    scores |= bounds
    best = scores[FACTS][0]
    return [
        {
            "data": of.name, "wording": wording, **_reader(of, name, score),
            **_score("minus the better bag", score[0] - bag), **_score(f"minus {FACTS}", score[0] - best),
        } for name, score in scores.items()
    ]  # fmt: skip


def _told_apart(by_its_own: Scored, by_others: Scored | None) -> Row:
    """Return the columns of scores with the description of the history and with those of all others."""
    return {
        **_score("by its description", by_its_own), **_score("by others'", by_others),
        **_score("difference", by_others and by_its_own - by_others),
    }  # fmt: skip


def _compared(data: str, small: bool, keep: Path) -> list[Row]:
    """Return the rows of readers without training and of tuned models on a set."""
    of, arms = problem(data, small), tuned(data)
    if small:
        arms = {name: arm for name, arm in arms.items() if name not in (LLAMA, SERIALISED)}
    scores = readers(of)
    bag = _better_bag(scores)
    rows = _rows(of, arms, small, keep, _paper(TUNED, data), SERIALISED, bag)
    plain = [{"data": data, **_reader(of, reader, score)} for reader, score in scores.items()]
    best = max(row["MRR"] for row in rows)
    return [{**dict.fromkeys(rows[0]), **row, "void": best <= bag.value} for row in [*plain, *rows]]


def _better_bag(scores: Mapping[str, tuple[Scored, Scored]]) -> Scored:
    """Return the higher mean reciprocal rank of the two bags."""
    return max((scores[name][0] for name in BAGS), key=lambda score: score.value)


def _ablation_sets(small: bool) -> tuple[str, ...]:
    """Return the sets of Tables 8 and 11."""
    return (EARTHQUAKES,) if small else (BADGES, EARTHQUAKES)


def _ablated(data: str, options: tuple[Mapping[str, str], ...], small: bool, keep: Path) -> list[Row]:
    """Return the rows of the model with all defaults and with each option."""
    arms = _few(ablations(data, *options), small)
    paper = {name: ABLATIONS[OURS[data], name] for name in arms}
    return _rows(problem(data, small), arms, small, keep, paper, "all")


def _paper(table: Mapping[tuple[str, str], Score], data: str) -> dict[str, Score]:
    """Return the published scores, with which ours are compared."""
    return {name: table[OURS[data], row] for name, row in NAMES.items() if data in OURS}


def _few(arms: dict[str, Arm], small: bool) -> dict[str, Arm]:
    """Return all models, or the last one for the small mode."""
    return {name: arms[name] for name in (list(arms)[-1:] if small else arms)}


def _rows(
    of: Benchmark,
    arms: Mapping[str, Arm],
    small: bool,
    keep: Path,
    paper: Mapping[str, Score],
    against: str = "",
    bag: Scored | None = None,
) -> list[Row]:
    """Return one row per model.

    Args:
        of: The set.
        arms: The models by their names.
        small: Whether the set is small.
        keep: The folder of similarities.
        paper: The published score of some of the models.
        against: The model that is subtracted from the others.
        bag: The score of the better bag, which is subtracted too.
    """
    trained = _similarities(arms, small, keep)
    scores = {name: searched(z["test"]) for name, z in trained.items()}
    rows = []
    for name, (mrr, recall) in scores.items():
        about, published = trained[name]["about"], paper.get(name)
        compared = scores.get(against) if name != against else None
        rows.append({
            "data": of.name, **_reader(of, name, (mrr, recall)),
            "paper MRR": published and published[0], "difference": published and mrr.value - published[0],
            "paper recall": published and published[1],
            **(_score(f"MRR minus {against}", compared and mrr - compared[0]) if against else {}),
            **(_score("MRR minus the better bag", mrr - bag) if bag else {}),
            "validation MRR": max(about["validation"]) if "validation" in about else None, "epoch": about.get("epoch"),
            "seconds": about.get("seconds"), "trained weights": about["weights"] if "validation" in about else 0,
            "histories per second": about["histories per second"], "cut histories": about.get("cut"),
        })  # fmt: skip
    return rows


def _reader(of: Benchmark, reader: str, scores: tuple[Scored, Scored]) -> Row:
    """Return the columns of scores on a set, and chance."""
    n = len(of.split.test)
    chance = float((1 / np.arange(1, n + 1)).mean())
    return {
        "model": reader, "corpus": n, "descriptions": len(of.queries), "chance MRR": chance, **_score("MRR", scores[0]),
        "chance recall": min(5 / n, 1.0), **_score("recall@5", scores[1]),
    }  # fmt: skip


def _score(name: str, score: Scored | None) -> Row:
    return {name: score and score.value, f"± {name}": score and score.half_width}


def _similarities(arms: Mapping[str, Arm], small: bool, keep: Path) -> dict[str, Similarities]:
    """Return what each model finds similar."""
    if small:
        return {name: similarities(replace(arm, epochs=min(arm.epochs, 1)), small, keep) for name, arm in arms.items()}
    return dict(zip(arms, side_by_side(similarities, [(arm, small, keep) for arm in arms.values()]), strict=True))


def _fit(data: Benchmark) -> Array:
    """Return `(q, n)` whether description i fits history j, in the test part."""
    histories = [History(names, times) for _, names, times in data.histories()]
    return fits([data.descriptions[i] for i in data.queries], [histories[i] for i in data.split.test])


def _facts_fit(data: Benchmark) -> Array:
    """Return `(q, n)` whether all facts that hold of described history i hold of history j, in the test part."""
    histories = data.histories()
    hold = [set(facts(*histories[i][1:])) for i in data.split.test]
    return np.array([[of_one <= of_other for of_other in hold] for of_one in hold[: len(data.queries)]])


TABLES = {
    "describe": describe, "table3": table3, "choose": choose, "table6": table6, "table7": table7, "table8": table8,
    "table9": table9, "table10": table10, "table11": table11, "table12": table12, "counterfeits": counterfeits,
    "pairs": pairs, "steps": steps, "words": words, "untrained": untrained, "others": others, "fusions": fusions,
    "full": full,
}  # fmt: skip


def main() -> None:
    """Run the table that the command line names."""
    about = "the folder of what trained models found, which is used again; use another folder for another version"
    run("tpp", TABLES, keep={"type": Path, "default": Path("tpp-runs"), "help": about})


if __name__ == "__main__":
    main()
