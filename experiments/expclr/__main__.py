"""ExpCLR with every baseline: on motion, on household devices, and on intensive-care stays with severity scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from eventvec.learners.metrics import measure
from experiments.command_line import Row, run
from experiments.expclr.arms import FEATURES, STEPS, UNTRAINED, Arm, file_name, vectors
from experiments.expclr.problems import IN_UNITS, Name, Variant, problem, stay_aggregates
from experiments.expclr.scores import CLASSIFIERS, Scored, correlation, explained, predicted, predictions, scored
from experiments.expclr.settings import (
    CHOSEN,
    FEW_LABELS,
    FEW_TRIALS,
    LABEL_TRIALS,
    RATE_TRIALS,
    STAY_TRIALS,
    STAYS,
    TRIALS,
)
from experiments.jobs import side_by_side

SEEDS = (0, 1, 2)
FRACTIONS = (0.01, 0.05, 0.2)
SETS = ("twelve", "one series", "all")
AGGREGATES = "aggregates"
COMPONENTS = (5, 20, 100)
"""The numbers of principal components of the features, whose distances approach those of the features."""


def choose(small: bool, keep: Path) -> list[Row]:
    """All trials, on entities held out inside training: accuracy or AUROC of a linear classifier, one seed."""
    motion = Variant("hapt", choosing=True, small=small)
    few, stays = replace(motion, fraction=0.05), Variant("icu", choosing=True, small=small)
    tried = [(arm, motion) for arms in TRIALS.values() for arm in arms][: 1 if small else None]
    tried += [(arm, few) for arm in FEW_TRIALS if not small]
    tried += [(arm, stays) for arm in (STAY_TRIALS[:1] if small else STAY_TRIALS)]
    trained = side_by_side(vectors, [(arm, variant, 0, keep) for arm, variant in tried])
    rows = []
    for (arm, variant), of_arm in zip(tried, trained, strict=True):
        of = problem(variant)
        values = predicted("linear", of, variant, of_arm["training"], of_arm["test"])
        rows.append({
            "data": variant.name, "labels in training": variant.fraction, "trial": str(arm),
            "score": measure(of.task, of.y_test, values)[0], "seconds": of_arm["about"]["seconds"],
        })  # fmt: skip
    return rows


def rates(small: bool, keep: Path) -> list[Row]:
    """Motion: ExpCLR at low rates and with more steps, beside no training and the features, then the best on the test.

    The trials are scored on five training users, one seed. The untrained encoder is one of them. The best that was
    trained is then scored on the nine test users, three seeds.
    """
    base = (Arm(FEATURES), Arm(UNTRAINED))
    trials = (*base, *RATE_TRIALS[: 1 if small else None])
    choosing, tested = Variant("hapt", choosing=True, small=small), Variant("hapt", small=small)
    of, scores = problem(choosing), list[Scored]()
    for trained in side_by_side(vectors, [(arm, choosing, 0, keep) for arm in trials]):
        scores.append(scored(of, [predicted("linear", of, choosing, trained["training"], trained["test"])]))
    best = trials[max(range(len(base), len(trials)), key=lambda place: scores[place].mean)]
    on_test = _scores(((arm, tested) for arm in (*base, best)), keep)
    final = [on_test[arm.method, tested]["linear"] for arm in (*base, best)]
    rows = list[Row]()
    for users, arms, values in (("choosing", trials, scores), ("test", (*base, best), final)):
        of_features, of_untrained = values[:2]
        rows += [
            {
                "users": users, "vectors": str(arm) if arm in RATE_TRIALS else arm.method,
                "steps": (arm.steps or STEPS["hapt"]) if arm in RATE_TRIALS else 0, **_columns("linear", score),
                **_columns("minus untrained", score - of_untrained), **_columns("minus features", score - of_features),
            }
            for arm, score in zip(arms, values, strict=True)
        ]  # fmt: skip
    return rows


def only_labels(small: bool, keep: Path) -> list[Row]:
    """Motion: ExpCLR with the labels as the only features, its fully supervised form, beside cross-entropy.

    The rates are chosen on five training users, one seed; the best of each method is scored on the nine test users,
    three seeds. The paper's poster has no number for this form.
    """
    choosing, tested = Variant("hapt", choosing=True, small=small), Variant("hapt", small=small)
    of, rows, best = problem(choosing), list[Row](), [Arm(UNTRAINED)]
    for arms in LABEL_TRIALS.values():
        few = arms[: 1 if small else None]
        trained = side_by_side(vectors, [(arm, choosing, 0, keep) for arm in few])
        scores = [
            {
                name: scored(of, [predicted(name, of, choosing, z["training"], z["test"])])
                for name in CLASSIFIERS["hapt"]
            }
            for z in trained
        ]
        best.append(few[max(range(len(few)), key=lambda place: scores[place]["linear"].mean)])
        rows += [_labels_row("choosing", str(arm), of_arm, None) for arm, of_arm in zip(few, scores, strict=True)]
    on_test = _scores(((arm, tested) for arm in best), keep)
    supervised = on_test["supervised", tested]
    return rows + [_labels_row("test", arm.method, on_test[arm.method, tested], supervised) for arm in best]


def _labels_row(users: str, name: str, scores: dict[str, Scored], supervised: dict[str, Scored] | None) -> Row:
    """Return the columns of one arm, with its lead over cross-entropy on the same users."""
    row: Row = {"users": users, "vectors": name, "paper": None}
    for classifier, score in scores.items():
        row |= _columns(classifier, score)
        of_lead = _columns(f"{classifier} minus supervised", score - (supervised or scores)[classifier])
        row |= of_lead if supervised else dict.fromkeys(of_lead)
    return row


def hapt(small: bool, keep: Path) -> list[Row]:
    """Smartphone motion, 387 features: activities of nine unseen users by every method (accuracy, three seeds)."""
    return _methods("hapt", list(CHOSEN.values()), small, keep)


def cause(small: bool, keep: Path) -> list[Row]:
    """Motion: what the vectors of one training keep of the features, and which activities they confuse."""
    variant = Variant("hapt", small=small)
    in_units, arms = replace(variant, features="in units"), list(CHOSEN.values())[: 1 if small else None]
    jobs = [(arm, variant, 0, keep) for arm in (Arm(FEATURES), Arm(UNTRAINED), *arms)]
    jobs += [(arm, in_units, 0, keep) for arm in (Arm(FEATURES), CHOSEN["ExpCLR"])]
    sets = {
        (arm.method, on.features): vectors_of
        for (arm, on, *_), vectors_of in zip(jobs, side_by_side(vectors, jobs), strict=True)
    }
    every, units = sets[FEATURES, "all"], sets[FEATURES, "in units"]
    for count in COMPONENTS:
        components = PCA(min(count, *every["training"].shape), random_state=0).fit(every["training"])
        z = {part: components.transform(every[part]) for part in ("training", "test")}
        sets[f"{count} principal components", "all"] = z
    of = problem(variant)
    still = np.isin(of.y_test, [of.classes.index(name) for name in ("sitting", "standing")])
    shape = [i for i, name in enumerate(of.features) if name.split(": ")[-1] not in IN_UNITS]
    shapes = {part: every[part][:, shape] for part in ("training", "test")}
    rows = []
    for (method, features), z in sets.items():
        right = predicted("linear", of, variant, z["training"], z["test"]) == of.y_test
        rows.append({
            "vectors": method, "features": features, "dimensions": z["test"].shape[1], "linear": float(right.mean()),
            "sitting, standing": float(right[still].mean()), "other activities": float(right[~still].mean()),
            "R², in units": explained(z, units), "R², shapes": explained(z, shapes),
            "distances, all": correlation(z["test"], every["test"]),
            "distances, in units": correlation(z["test"], units["test"]),
        })  # fmt: skip
    return rows


def electric_devices(small: bool, keep: Path) -> list[Row]:
    """ElectricDevices, 62 features: seven devices, with the settings chosen on motion (accuracy, three seeds)."""
    left_out = ("triplets", "TS2Vec")  # on motion only
    return _methods("electric_devices", [arm for arm in CHOSEN.values() if arm.method not in left_out], small, keep)


def features(small: bool, keep: Path) -> list[Row]:
    """Motion, 12, 62 and 387 features, with and without as many of noise: ExpCLR against its quadratic form."""
    variants = [
        Variant("hapt", name, noise, small=small) for name in (SETS[:1] if small else SETS) for noise in (False, True)
    ]
    arms = (Arm(FEATURES), Arm(UNTRAINED), CHOSEN["ExpCLR"], CHOSEN["quadratic loss"])
    scores = _scores(((arm, variant) for variant in variants for arm in arms), keep)
    rows: list[Row] = []
    for variant in variants:
        alone, untrained, expclr, quadratic = (scores[arm.method, variant] for arm in arms)
        for classifier in CLASSIFIERS["hapt"]:
            of_features, of_untrained = alone[classifier], untrained[classifier]
            of_expclr, of_quadratic = expclr[classifier], quadratic[classifier]
            rows.append({
                "features": variant.features, "noise": "as many" if variant.noise else "none", "classifier": classifier,
                **_columns("features alone", of_features), **_columns("untrained", of_untrained),
                **_columns("ExpCLR", of_expclr), **_columns("quadratic", of_quadratic),
                **_columns("ExpCLR minus features", of_expclr - of_features),
                **_columns("quadratic minus features", of_quadratic - of_features),
                **_columns("ExpCLR minus untrained", of_expclr - of_untrained),
                **_columns("quadratic minus untrained", of_quadratic - of_untrained),
                **_columns("quadratic minus ExpCLR", of_quadratic - of_expclr),
            })  # fmt: skip
    return rows


def labels(small: bool, keep: Path) -> list[Row]:
    """Motion with the labels of 1 % to 20 % of the windows: semi-supervised against supervised from scratch."""
    variants = [
        Variant("hapt", fraction=fraction, small=small) for fraction in (FRACTIONS[1:2] if small else FRACTIONS)
    ]
    without = () if small else (Arm(FEATURES), CHOSEN["ExpCLR"], CHOSEN["quadratic loss"])
    arms = (*without, *FEW_LABELS.values())
    scores = _scores(((arm, variant) for variant in variants for arm in arms), keep)
    rows: list[Row] = []
    for variant in variants:
        of_semi = scores["semi-supervised", variant]
        for method in (arm.method for arm in arms):
            row: Row = {"labels in training": variant.fraction, "method": method}
            for classifier, score in scores[method, variant].items():
                row |= _columns(classifier, score)
                row |= _columns(f"semi-supervised minus it, {classifier}", of_semi[classifier] - score)
            rows.append(row)
    return rows


def icu(small: bool, keep: Path) -> list[Row]:
    """physionet2012 a with SAPS-I and SOFA as features: death in hospital of unseen patients (AUROC, three seeds)."""
    variant, arms = Variant("icu", small=small), list(STAYS.values())
    by_method = _by_arm("icu", [STAYS["ExpCLR"], STAYS["CoLES"]] if small else arms, small, keep)
    scores = {method: by_classifier["linear"] for method, by_classifier in by_method.items()}
    of, aggregates = problem(variant), stay_aggregates(variant)
    scores[AGGREGATES] = scored(of, [predicted("linear", of, variant, *aggregates)])
    for arm in (Arm(FEATURES), STAYS["ExpCLR"], STAYS["CoLES"]):  # beside aggregates
        values = []
        for seed in _seeds(arm, variant):
            of_arm = vectors(arm, replace(variant, seed=seed), seed, keep)
            joined = [
                np.hstack([part, of_arm[side]]) for part, side in zip(aggregates, ("training", "test"), strict=True)
            ]
            values.append(predicted("linear", of, variant, *joined))
        scores[f"{AGGREGATES} and {arm.method}"] = scored(of, values)
    return [
        {
            "representation": name, **_columns("AUROC", score), **_columns("minus CoLES", score - scores["CoLES"]),
            **_columns("minus aggregates", score - scores[AGGREGATES]),
        }
        for name, score in scores.items()
    ]  # fmt: skip


def _methods(name: Name, arms: Sequence[Arm], small: bool, keep: Path) -> list[Row]:
    scores = _by_arm(name, arms[:2] if small else arms, small, keep)
    rows: list[Row] = []
    for method, by_classifier in scores.items():
        row: Row = {"representation": method}
        for classifier, score in by_classifier.items():
            row |= _columns(classifier, score)
        row |= _columns("1-nn minus untrained", by_classifier["1-nn"] - scores[UNTRAINED]["1-nn"])
        row |= _columns("linear minus features", by_classifier["linear"] - scores[FEATURES]["linear"])
        row |= _columns("ExpCLR minus it", scores["ExpCLR"]["linear"] - by_classifier["linear"])
        rows.append(row)
    return rows


def _by_arm(name: Name, arms: Sequence[Arm], small: bool, keep: Path) -> dict[str, dict[str, Scored]]:
    """Return the scores of the features, of the untrained encoder and of the methods."""
    variant, encoder = Variant(name, small=small), arms[0].encoder
    every = (Arm(FEATURES), Arm(UNTRAINED, encoder=encoder), *arms)
    scores = _scores(((arm, variant) for arm in every), keep)
    return {arm.method: scores[arm.method, variant] for arm in every}


def _scores(pairs: Iterable[tuple[Arm, Variant]], keep: Path) -> dict[tuple[str, Variant], dict[str, Scored]]:
    """Return the scores of each classifier, by method and variant, from trainings side by side."""
    pairs = list(pairs)
    jobs = [(arm, replace(variant, seed=seed), seed, keep) for arm, variant in pairs for seed in _seeds(arm, variant)]
    side_by_side(vectors, list({(file_name(*job[:2]), job[2]): job for job in jobs}.values()))
    by_job = dict(
        zip(((arm.method, variant) for arm, variant, *_ in jobs), side_by_side(predictions, jobs), strict=True)
    )
    scores = {}
    for arm, variant in pairs:
        of, name = problem(variant), arm.method
        of_seeds = [by_job[name, replace(variant, seed=seed)] for seed in _seeds(arm, variant)]
        scores[name, variant] = {
            classifier: scored(of, [values[classifier] for values in of_seeds])
            for classifier in CLASSIFIERS[variant.name]
        }
    return scores


def _seeds(arm: Arm, variant: Variant) -> Sequence[int]:
    """Return the seeds of an arm; one is enough where nothing is drawn."""
    nothing_drawn = arm.method == FEATURES and variant.fraction == 1
    return SEEDS[:1] if variant.small or nothing_drawn else SEEDS


def _columns(name: str, score: Scored) -> Row:
    return {name: score.mean, f"{name} ±": score.half_width}


TABLES = {
    "choose": choose, "rates": rates, "hapt": hapt, "cause": cause, "features": features, "labels": labels,
    "only_labels": only_labels, "electric_devices": electric_devices, "icu": icu,
}  # fmt: skip


def main() -> None:
    """Run the table that the command line names."""
    folder = {"type": Path, "default": Path("expclr-runs"), "help": "the folder of vectors; a killed run resumes"}
    run("expclr", TABLES, keep=folder)


if __name__ == "__main__":
    main()
