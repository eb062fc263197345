"""The models of each table, and the trials by which their settings were chosen on the validation part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, get_args

from eventvec.views import Counterfeits
from eventvec.views.counterfeits import Exchanged
from experiments.tpp.arms import BY_OTHERS, COUNTERFEITS, MINILM, MORE, RANDOM, STORIES, Arm
from experiments.tpp.published import BADGES, EARTHQUAKES, MIXED

STAYS = "physionet2012"
EPOCHS = {BADGES: 3, EARTHQUAKES: 10, STAYS: 2, MIXED: 3}
"""The passes of a language model over each set, about five minutes on a core."""
GRU_EPOCHS, PAPER_EPOCHS = 30, 25
SERIALISED, TPP, LLAMA, TOWERS = "serialised, MiniLM", "TPP, MiniLM", "TPP, stories15M", "GRU with frozen MiniLM"
LATE = "late interaction"
RATES = {SERIALISED: 2e-3, TPP: 2e-3, LLAMA: 2e-3, TOWERS: 3e-3, LATE: 1e-3}
STATE = 64
"""The learning rates and the size of the GRU's state, chosen on the validation part, see `TRIALS`."""
TRAINED_APART: dict[str, tuple[str, ...]] = {BADGES: (TOWERS, LATE), EARTHQUAKES: (TOWERS, LATE, TPP), STAYS: ()}
"""The models that were trained again without the histories that another author described."""


def tuned(data: str) -> dict[str, Arm]:
    """Return the models of Tables 6 and 7 on a set.

    Args:
        data: A name in `SETS`, or `MIXED`.

    Example:
        >>> [arm.epochs for arm in tuned("usgs_earthquakes").values()]
        [10, 10, 10, 30]
    """
    return {
        SERIALISED: _language(data, SERIALISED, MINILM, reads="serialised"),
        TPP: _language(data, TPP, MINILM),
        LLAMA: _language(data, LLAMA, STORIES),
        TOWERS: _towers(data, STATE, RATES[TOWERS]),
    }


def competing(data: str) -> dict[str, Arm]:
    """Return the trained models that compete with sentences that need no training.

    Args:
        data: A name in `SETS`.

    Example:
        >>> list(competing("usgs_earthquakes"))
        ['TPP, MiniLM', 'GRU with frozen MiniLM', 'late interaction']
    """
    models = tuned(data)
    return {TPP: models[TPP], TOWERS: models[TOWERS], LATE: replace(models[TOWERS], late=True, lr=RATES[LATE])}


def by_others(data: str) -> dict[str, Arm]:
    """Return the trained models that search for descriptions by another author, those of `TRAINED_APART`.

    Args:
        data: A name in `SETS`.

    Example:
        >>> list(by_others("stackoverflow_badges"))
        ['GRU with frozen MiniLM', 'late interaction']
    """
    models = {**tuned(data), **competing(data)}
    return {name: replace(models[name], data=f"{data}{BY_OTHERS}") for name in TRAINED_APART[data]}


def untuned(data: str) -> dict[str, Arm]:
    """Return the models of Table 12 on a set, and MiniLM with random weights.

    Args:
        data: A name in `SETS`, or `MIXED`.

    Example:
        >>> list(untuned("mixed"))[-1]
        'TPP, random weights'
    """
    arms = {name: replace(arm, epochs=0) for name, arm in tuned(data).items() if not arm.gru}
    return {**arms, "TPP, random weights": Arm(data, RANDOM)}


def ablations(data: str, *options: Mapping[str, Any]) -> dict[str, Arm]:
    """Return TPP with all defaults, and with each of some options of the encoder or the method.

    Args:
        data: A name in `SETS`, or `MIXED`.
        options: An option of each model, `objective` for the method and others for the encoder.

    Example:
        >>> list(ablations("usgs_earthquakes", {"reads": "time"}))
        ['all', 'reads=time']
    """
    tpp = tuned(data)[TPP]
    arms = {"all": tpp}
    for option in options:
        ((name, value),) = option.items()
        method = name == "objective"
        arms[f"{name}={value}"] = replace(tpp, method=option) if method else replace(tpp, reading=option)
    return arms


def told_counterfeits(data: str) -> dict[str, Arm]:
    """Return the models that should tell a history from its counterfeits.

    Args:
        data: A name in `SETS`, or `MIXED`.

    Example:
        >>> list(told_counterfeits("usgs_earthquakes"))[-1]
        'GRU with frozen MiniLM, gaps as negatives'
    """
    towers = tuned(data)[TOWERS]
    arms = {**ablations(data, {"reads": "time"}, {"reads": "text"}), TOWERS: towers, LATE: competing(data)[LATE]}
    for exchanged in get_args(Exchanged):
        negatives = {"negatives": Counterfeits(COUNTERFEITS, exchanged)}
        arms[f"{TOWERS}, {exchanged} as negatives"] = replace(towers, method=negatives)
    return arms


def more_pairs(data: str) -> dict[str, Arm]:
    """Return the GRU trained on the pairs of a benchmark, and on those of all other sequences of its set.

    Args:
        data: A name in `SETS`.

    Example:
        >>> list(more_pairs("stackoverflow_badges"))
        ['GRU with frozen MiniLM', 'GRU with frozen MiniLM, all sequences']
    """
    towers = tuned(data)[TOWERS]
    return {TOWERS: towers, f"{TOWERS}{MORE}": replace(towers, data=f"{data}{MORE}")}


def longer(data: str) -> dict[str, Arm]:
    """Return TPP with the paper's number of epochs, on the pairs of a benchmark and of all sequences of its set.

    Args:
        data: A name in `SETS`.

    Example:
        >>> [arm.epochs for arm in longer("stackoverflow_badges").values()]
        [3, 25, 25]
    """
    tpp = tuned(data)[TPP]
    more = replace(tpp, epochs=PAPER_EPOCHS)
    return {TPP: tpp, f"{TPP}, longer": more, f"{TPP}, longer{MORE}": replace(more, data=f"{data}{MORE}")}


def _language(data: str, name: str, backbone: str, **reading: str) -> Arm:
    return Arm(data, backbone, EPOCHS[data], RATES[name], reading=reading)


def _towers(data: str, state: int, lr: float) -> Arm:
    return Arm(data, MINILM, GRU_EPOCHS, lr, None, state, 32)


TRIALS = [
    *(replace(tuned(EARTHQUAKES)[TPP], lr=lr) for lr in (5e-4, 1e-3, 2e-3)),
    *(replace(tuned(EARTHQUAKES)[SERIALISED], lr=lr) for lr in (5e-4, 1e-3, 2e-3)),
    *(replace(tuned(EARTHQUAKES)[LLAMA], lr=lr) for lr in (1e-3, 2e-3, 4e-3)),
    *(_towers(data, state, lr) for data, state, lr in product((EARTHQUAKES, BADGES), (64, 256), (1e-3, 3e-3))),
    *(replace(competing(data)[LATE], lr=lr) for data, lr in product((EARTHQUAKES, BADGES), (1e-3, 3e-3))),
]
"""Learning rates of the language models on earthquakes; of the GRU, of two sizes, and of late interaction, on
earthquakes and badges."""
