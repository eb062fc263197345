"""The options of a configuration that follow from the data, beside those that a user has written."""

from __future__ import annotations

from typing import Any

from eventvec.config import Table, arguments
from eventvec.encoders import Recurrent
from eventvec.methods.declarations import suggested
from eventvec.parts import ENCODER_NAMES, METHOD_NAMES, NESTED
from eventvec.sequences import Sequences
from eventvec.views.sizes import batch_size, embedding_size

LENGTHS = ("shortest", "longest", "length")
"""The options of a sampler that follow from the data for every sampler that has them."""


def suggest(x: Sequences, config: Table) -> Table:
    """Return the tables of a configuration with the options that follow from the data and are not in the tables yet.

    The method suggests an encoder and the sizes of its views or windows, such as slices up to twice the median length.
    The embedding dimension grows with the cube root of the number of entities, from 32 to 512; the state of an encoder
    that is read in several parts has half of it. A batch has a sixteenth of the entities, from 8 to 128. These rules
    are in `views.sizes`; a method may suggest other sizes, and options of `fit`, as CoLES does.
    """
    method, encoder = {"name": "coles", **config.get("method", {})}, config.get("encoder", {})
    suggestion = suggested(METHOD_NAMES.get(str(method["name"])), x)
    for option, value in suggestion["method"].items():
        method[option] = _sized(method.get(option, {}), value) if isinstance(value, dict) else method.get(option, value)
    if encoder.get("name", suggestion["encoder"]["name"]) == suggestion["encoder"]["name"]:
        encoder = _merged(encoder, suggestion["encoder"])
    if "dim" in arguments(ENCODER_NAMES.get(str(encoder["name"]), Recurrent)):
        parts = len(encoder.get("read_out", ()))
        encoder = {**encoder, "dim": encoder.get("dim", embedding_size(x) // (2 if parts > 1 else 1))}
    fit = {"batch_size": batch_size(x), **suggestion["fit"], **config.get("fit", {})}
    return {**config, "method": method, "encoder": encoder, "fit": fit}


def _sized(table: Any, suggestion: Table) -> Any:
    """Return the table of a sampler with the suggested sizes, if the sampler or a nested one takes them."""
    if not isinstance(table, dict):
        return table
    sampler = {"name": suggestion["name"], **table}
    constructor = NESTED.get(str(sampler["name"]))
    options = arguments(constructor) if constructor else {}
    if "views" in options:
        sampler["views"] = _sized(sampler.get("views", {}), suggestion)
    if sampler["name"] == suggestion["name"]:
        return {**suggestion, **sampler}
    lengths = {option: suggestion[option] for option in LENGTHS if option in suggestion}
    return {**(lengths if set(options) >= set(lengths) else {}), **sampler}


def _merged(table: Table, suggestion: Table) -> Table:
    """Return a table with the suggested options that it lacks.

    A nested table without a name, or with that of the suggested part, is merged with this part. Options that this part
    does not take go to the event encoder inside it: `time` in the table of `segmented` becomes an option of
    `segmented.events`.
    """
    merged = {**suggestion, **table}
    for option, part in suggestion.items():
        nested = table.get(option)
        if isinstance(part, dict) and isinstance(nested, dict) and nested.get("name", part["name"]) == part["name"]:
            options = {"name", *arguments(NESTED[part["name"]])}
            outer = {name: value for name, value in nested.items() if name in options}
            inner = {name: value for name, value in nested.items() if name not in outer}
            if inner and isinstance(events := outer.get("events", {}), dict):
                outer["events"] = {**inner, **events}
            merged[option] = {**part, **outer}
    return merged
