"""The versions, devices, threads and extras of this machine, and whether a model can be trained on it."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from eventvec import models, tables, training
from eventvec.cli import terminal

EXTRAS = {
    "eval": ["lightgbm"],
    "viz": ["matplotlib", "jinja2", "openTSNE"],
    "search": ["faiss"],
    "tune": ["optuna"],
    "text": ["transformers", "peft"],
    "text-quant": ["bitsandbytes"],
    "tensorboard": ["tensorboard"],
    "mlflow": ["mlflow"],
    "onnx": ["onnx"],
    "ray": ["ray"],
    "spark": ["pyspark"],
    "duckdb": ["duckdb"],
    "delta": ["deltalake"],
    "postgres": ["adbc_driver_postgresql"],
    "serve": ["fastapi", "uvicorn", "prometheus_client"],
}
"""The modules that each extra installs."""


def show_machine(json_: bool) -> None:
    """Print what is installed, which needs no torch, and then what this machine has; as JSON, all at once."""
    if json_:
        terminal.show({**installed(), **machine()}, json_)
        return
    terminal.show(installed(), json_)
    terminal.show(machine(), json_)


def installed() -> dict[str, str]:
    """Return the versions of the libraries, and which extras are there.

    Example:
        >>> installed()["extra text"] in ("installed", "pip install 'eventvec[text]'")
        True
    """
    versions = {f"version of {name}": number for name, number in models.versions().items()}
    for extra, modules in EXTRAS.items():
        is_there = all(importlib.util.find_spec(module) for module in modules)
        versions[f"extra {extra}"] = "installed" if is_there else f"pip install 'eventvec[{extra}]'"
    return versions


def machine() -> dict[str, Any]:
    """Return the devices and threads of this machine, how it computes, and whether a model trains here.

    Example:
        >>> machine()["a model trains here"][:6]
        'yes, o'
    """
    import torch

    from eventvec.precision import cpu_has_bfloat16, onednn_agrees

    return {
        "devices": ", ".join(["cpu", *(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))]),
        "threads": _threads(),
        "fast float32 products": onednn_agrees(),
        "bfloat16 on the CPU": cpu_has_bfloat16(),
        "a model trains here": _trains(),
    }


def _threads() -> str:
    """Return how many threads `fit` and `embed` use."""
    import torch

    from eventvec.threads import VARIABLE

    count = torch.get_num_threads()
    if VARIABLE in os.environ:
        return f"{count}, by {VARIABLE}"
    return f"1 for models with states of up to about 128, {count} for larger ones; {VARIABLE} overrides it"


def _trains() -> str:
    """Train a small model for a step, and return a sentence with its device."""
    import polars as pl

    events = pl.DataFrame({"id": [0, 0, 1, 1], "t": [0, 1, 0, 1], "v": [0.0, 1.0, 2.0, 3.0]})
    data = tables.read(events, key="id", time="t", numeric=["v"])
    method = {"method": {"name": "ocp"}, "encoder": {"name": "gru", "dim": 4}}
    run = training.fit(data, method=method, device="auto", epochs=1)
    return f"yes, on {next(run.method.parameters()).device.type}"
