"""What this machine has: versions, devices, threads, extras, and whether a model trains here."""

from __future__ import annotations

import importlib.util
from typing import Any

import polars as pl
import torch

from eventvec import checkpoint, config, tables
from eventvec.cli import terminal
from eventvec.precision import onednn_agrees
from eventvec.training.loop import fit

EXTRAS = {"eval": ["lightgbm"], "viz": ["plotly", "jinja2", "openTSNE"], "text": ["transformers", "peft"]}
"""The modules that each extra brings."""


def examine() -> dict[str, Any]:
    """Return what `eventvec doctor` shows.

    Example:
        >>> examine()["a model trains here"][:6]
        'yes, o'
    """
    extras = {
        extra: all(importlib.util.find_spec(module) is not None for module in modules)
        for extra, modules in EXTRAS.items()
    }
    return {
        **{f"version of {name}": number for name, number in checkpoint.versions().items()},
        **{
            f"extra {name}": "installed" if there else f"pip install 'eventvec[{name}]'"
            for name, there in extras.items()
        },
        "devices": ", ".join(["cpu", *(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))]),
        "threads": torch.get_num_threads(),
        "fast float32 products": onednn_agrees(),
        "a model trains here": _trains(),
    }


def _trains() -> str:
    """Return on which device a small model has just been trained for a step."""
    events = pl.DataFrame({"id": [0, 0, 1, 1], "t": [0, 1, 0, 1], "v": [0.0, 1.0, 2.0, 3.0]})
    data = tables.read(events, key="id", time="t", numeric=["v"])
    made = {"encoder": {"name": "gru", "dim": 4}, "method": {"name": "ocp"}}
    device = terminal.device("auto")
    fit(config.build_method(made, data.schema).to(device), data.to(device), epochs=1)
    return f"yes, on {device.type}"
