"""Training: one loop over plain torch that any method goes through, and that goes on where it was killed."""

from __future__ import annotations

import inspect
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eventvec import checkpoint
from eventvec.config import Table, complete, describe
from eventvec.dataset import Dataset
from eventvec.errors import CheckpointError, ConfigError, DataError
from eventvec.files import sweep
from eventvec.precision import Precision, products
from eventvec.scan.buffers import workspace
from eventvec.sequences import Sequences
from eventvec.training.optimizer import Schedule, adam, faults, frozen, rate
from eventvec.training.validation import generator, split, validate

Record = dict[str, float | int | None]
Progress = Callable[[Record], None]
PATIENCE, MINUTES = 5, 5
"""What bounds a run when nothing is said: epochs without improvement, and minutes."""


@dataclass(frozen=True)
class Result:
    """How a training went.

    Args:
        history: one record per epoch: `epoch`, `step`, `loss` (mean over its steps), `validation` (or none), `lr`,
            `seconds` (since the start, earlier sessions of a resumed run included), `events_per_second` and `share` of
            the bound that is used up.
        steps: optimiser steps in all.
        seconds: time that training took, earlier sessions of a resumed run included.
        stopped: `epochs`, `time` or `early stopping`.
        usable: entities that could be used, those held out for validation included.
        notes: what was counted or left out.

    Example:
        >>> Result(history=(), steps=3, seconds=0.2, stopped="epochs", usable=40).stopped
        'epochs'
    """

    history: tuple[Record, ...]
    steps: int
    seconds: float
    stopped: str
    usable: int
    notes: tuple[str, ...] = ()


def fit(
    method: nn.Module,
    data: Dataset,
    *,
    epochs: int | None = None,
    time_budget: float | None = None,
    batch_size: int = 64,
    lr: float = 0.002,
    encoder_lr: float | None = None,
    freeze: int = 0,
    schedule: Schedule = "cosine",
    step_epochs: int = 10,
    step_factor: float = 0.9025,
    clip: float | None = None,
    validation: float = 0.05,
    patience: int | None = None,
    precision: Precision = "float32",
    seed: int = 0,
    checkpoint_every: int = 200,
    out: Path | str | None = None,
    resume: bool = False,
    config: Table | None = None,
    progress: Progress | None = None,
) -> Result:
    """Train a method's encoder, in place, and return how it went.

    Adam over batches of entities, drawn anew each epoch, the last partial batch dropped. Training ends after `epochs`,
    after `time_budget` seconds or when the validation loss has not improved for `patience` epochs, whichever comes
    first; with none of the three given, after 5 minutes or 5 epochs without improvement. Where `patience` counts, the
    weights of the best epoch are kept, else the last. The validation loss is the method's own on entities that are
    held out of training, in batches and with random numbers that are the same every time.

    A run that is bounded by epochs and resumed ends with the weights of one that was never interrupted (same device,
    threads and versions); one that is bounded by time goes on with the seconds it has left.

    Args:
        method: has `.encoder` and `loss(batch, rng)`; its weights lie where training happens.
        data: the entities; those of which the method's `usable` says no are left out and counted.
        epochs: passes over the data.
        time_budget: seconds of training.
        batch_size: entities per step, at least 2.
        lr: highest learning rate.
        encoder_lr: highest learning rate of the encoder's weights, in fine-tuning a lower one; `lr` if not given.
        freeze: epochs at the start in which the encoder stays as it is, in evaluation mode, and the rest learns.
        schedule: `cosine` from the highest rate to 0 over the bound that was given, `constant`, or `step`.
        step_epochs: with `step`, the rate falls every so many epochs.
        step_factor: with `step`, what it is multiplied by then, in (0, 1]; the CoLES paper's runs have .9025 or .8.
        clip: largest norm of the gradient; longer ones are scaled to it.
        validation: share of usable entities held out, in [0, 0.5]; with fewer than 2 of them, none.
        patience: epochs without improvement before stopping.
        precision: of products, `float32` or `bfloat16`, in which a recurrent encoder's states stay float32, and so do
            its products where they are too small to gain.
        seed: of everything random.
        checkpoint_every: steps between checkpoints, with `out`.
        out: run folder to write; must be new, unless `resume`.
        resume: go on from the checkpoint in `out`, from the start if it has none; a finished run is loaded.
        config: tables to save with the run; described from the method if not given.
        progress: called with a record after each step and each epoch.

    Raises:
        ConfigError: an option is out of range or contradicts another.
        DataError: fewer than two entities are usable.
        CheckpointError: `out` holds a run already, or one that `resume` cannot go on with.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"])
        >>> method = ev.CoLES(ev.GRU(ev.EventEncoder(data.schema), dim=4), ev.RandomSlices(shortest=1, longest=2))
        >>> result = ev.fit(method, data, epochs=3)
        >>> result.steps, result.stopped
        (3, 'epochs')
    """
    if epochs is None and time_budget is None:
        time_budget, patience = MINUTES * 60.0, PATIENCE if patience is None else patience
    settings: Table = {
        "epochs": epochs, "time_budget": time_budget, "batch_size": batch_size, "lr": lr, "encoder_lr": encoder_lr,
        "freeze": freeze, "schedule": schedule, "step_epochs": step_epochs, "step_factor": step_factor, "clip": clip,
        "validation": validation, "patience": patience, "precision": precision, "seed": seed,
    }  # fmt: skip
    _refuse(method, settings, checkpoint_every)
    device = next(method.parameters()).device
    x = data.sequences.to(device)
    training, held, notes = split(method, x, settings)
    run = _Training(method, adam(method, lr, encoder_lr), generator(device, seed), settings)
    if out is not None:
        saved = {**(config or describe(method)), "fit": {k: v for k, v in settings.items() if v is not None}}
        sweep(Path(out))
        info = _open(Path(out), resume, saved, data)
        if info["finished"]:
            method.load_state_dict(checkpoint.load(out).method.state_dict())
            return _result(info, (*notes, "the run had finished; nothing was trained"))
    forked = torch.random.fork_rng(device_type=device.type, devices=[device] if device.type != "cpu" else [])
    with forked, workspace():
        torch.manual_seed(int(torch.randint(2**62, (), generator=run.rng, device=device)))  # dropout reads only this
        if out is not None and (Path(out) / "checkpoint.safetensors").exists():
            run.restore(Path(out) / "checkpoint.safetensors")
        if out is not None:
            checkpoint.write_text(Path(out) / "metrics.jsonl", "".join(map(_line, run.history)))
        run.begin(len(training))
        while not run.stopped:
            for rows in run.batches(training):
                loss = run.step(x[rows])
                if progress:
                    progress(run.record(loss, None))
                if out is not None and run.steps % checkpoint_every == 0:
                    run.save(Path(out) / "checkpoint.safetensors")
            run.end_epoch(validate(method, x, held, settings))
            if progress:
                progress(run.history[-1])
            if out is not None:
                with (Path(out) / "metrics.jsonl").open("a") as file:
                    file.write(_line(run.history[-1]))
    if run.best_weights:
        method.load_state_dict(run.best_weights)
    summary = {
        "history": run.history, "steps": run.steps, "seconds": round(run.seconds, 3), "stopped": run.stopped,
        "usable": len(training) + len(held),
    }  # fmt: skip
    if out is not None:
        checkpoint.finish(Path(out), method, info, summary)
    return _result(summary, notes)


class _Training:
    """Everything that the next step depends on, so that it can be stored and gone on from."""

    COUNTS = ("steps", "epoch", "within", "seconds", "events", "total", "best", "waited", "history")

    def __init__(
        self, method: nn.Module, optimizer: torch.optim.Adam, rng: torch.Generator, settings: Mapping[str, Any]
    ) -> None:
        self.method, self.optimizer, self.rng, self.settings = method, optimizer, rng, settings
        self.steps, self.epoch, self.within, self.events, self.waited = 0, 0, 0, 0, 0
        self.seconds, self.total = 0.0, 0.0  # of all sessions; losses of the current epoch
        self.best: float | None = None
        self.best_weights: dict[str, Tensor] = {}
        self.history: list[Record] = []
        self.stopped = ""

    def begin(self, entities: int) -> None:
        """Start the clock, where it stood."""
        self.per_epoch = max(entities // self.settings["batch_size"], 1)
        self.clock = time.perf_counter() - self.seconds
        self._stop()

    def batches(self, training: Tensor) -> Iterator[Tensor]:
        """Yield the rows of each batch that is left of the current epoch, until training stops."""
        shuffle = torch.Generator().manual_seed((self.settings["seed"] * 1_000_003 + self.epoch) % 2**62)
        order = training[torch.randperm(len(training), generator=shuffle).to(training.device)]
        size = self.settings["batch_size"]
        for rows in order[: self.per_epoch * size].split(size)[self.within :]:
            if self.stopped:
                return
            yield rows

    def step(self, batch: Sequences) -> float:
        """Take one optimiser step and return the loss."""
        self.method.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate(group["top"])
        still = frozen(self.method, self.epoch < self.settings["freeze"])
        with products(self.settings["precision"], batch.device), still:
            loss: Tensor = self.method(batch, self.rng)
            loss.backward()
        value = float(loss.detach())
        if not math.isfinite(value):
            raise DataError(f"the loss became {value} at step {self.steps + 1}; lower lr or set clip")
        if self.settings["clip"] is not None:
            nn.utils.clip_grad_norm_(self.method.parameters(), self.settings["clip"])
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.steps, self.within, self.total = self.steps + 1, self.within + 1, self.total + value
        self.events, self.seconds = self.events + batch.total, time.perf_counter() - self.clock
        self._stop()
        return value

    def rate(self, top: float) -> float:
        """Return the learning rate of the next step for weights of this highest one."""
        drops, factor = self.epoch // self.settings["step_epochs"], self.settings["step_factor"]
        return rate(top, self.settings["schedule"], self._share(), drops, factor)

    def end_epoch(self, validation: float | None) -> None:
        """Note how the epoch went, and keep its weights if they are the best."""
        self.seconds = time.perf_counter() - self.clock
        self.history.append(self.record(self.total / max(self.within, 1), validation))
        self.epoch, self.within, self.total = self.epoch + 1, 0, 0.0
        if self.settings["patience"] is not None and validation is not None:
            if self.best is None or validation < self.best:
                self.best, self.waited = validation, 0
                self.best_weights = {k: v.detach().clone() for k, v in self.method.state_dict().items()}
            else:
                self.waited += 1
        self._stop()

    def record(self, loss: float, validation: float | None) -> Record:
        """Return what is told of this moment."""
        return {
            "epoch": self.epoch + 1, "step": self.steps, "loss": loss, "validation": validation,
            "lr": self.rate(self.settings["lr"]), "seconds": round(self.seconds, 3),
            "events_per_second": round(self.events / max(self.seconds, 1e-9)), "share": min(self._share(), 1),
        }  # fmt: skip

    def save(self, path: Path) -> None:
        """Write all of it as one file."""
        tensors = {f"method.{name}": value for name, value in self.method.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best_weights.items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in moments.items()}
        tensors |= {"rng": self.rng.get_state(), "torch_rng": torch.get_rng_state()}
        if (device := self.rng.device).type == "cuda":
            tensors["cuda_rng"] = torch.cuda.get_rng_state(device)
        counts = json.dumps({name: getattr(self, name) for name in self.COUNTS})
        checkpoint.write_tensors(path, tensors, {"counts": counts})

    def restore(self, path: Path) -> None:
        """Take all of it from a file that `save` wrote."""
        tensors, texts = checkpoint.read_tensors(path)
        for name, value in json.loads(texts["counts"]).items():
            setattr(self, name, value)
        self.method.load_state_dict(_under("method.", tensors))
        self.best_weights = _under("best.", tensors)
        optimizer = self.optimizer.state_dict()
        for name, value in _under("optimizer.", tensors).items():
            index, _, moment = name.partition(".")
            optimizer["state"].setdefault(int(index), {})[moment] = value
        self.optimizer.load_state_dict(optimizer)
        self.rng.set_state(tensors["rng"])
        torch.set_rng_state(tensors["torch_rng"])
        if "cuda_rng" in tensors:
            torch.cuda.set_rng_state(tensors["cuda_rng"], self.rng.device)

    def _share(self) -> float:
        """Return how much of the bound is used up."""
        epochs, budget = self.settings["epochs"], self.settings["time_budget"]
        return max(self.steps / (epochs * self.per_epoch) if epochs else 0.0, self.seconds / budget if budget else 0.0)

    def _stop(self) -> None:
        epochs, budget, patience = (self.settings[name] for name in ("epochs", "time_budget", "patience"))
        if epochs is not None and self.epoch >= epochs:
            self.stopped = "epochs"
        elif budget is not None and self.seconds >= budget:
            self.stopped = "time"
        elif patience is not None and self.waited >= patience:
            self.stopped = "early stopping"


def _open(out: Path, resume: bool, config: Table, data: Dataset) -> dict[str, Any]:
    """Return the `run.json` of the folder's run, begun now unless it is resumed."""
    if not (out / "run.json").exists():
        if out.exists() and any(file.name not in checkpoint.OWN for file in out.iterdir()):
            raise CheckpointError(f"{out} is not empty and holds no run; choose a new folder")
        return checkpoint.start(out, config, data, config["fit"]["seed"])
    if not resume:
        raise CheckpointError(f"{out} holds a run already; choose a new folder, or go on with it: --resume")
    info = checkpoint.read_info(out)
    if info["fingerprint"] != data.fingerprint:
        raise CheckpointError(f"{out} was begun on other data; resume with the same events and options")
    options = {name: option.default for name, option in inspect.signature(fit).parameters.items()}
    before = checkpoint.read_config(out)  # of an earlier version, it lacks options that came since
    before["fit"] = {**{name: options[name] for name in config["fit"]}, **before.get("fit", {})}
    before, config = complete(before), complete(config)
    if before != config:
        changed = [name for name in {**before, **config} if before.get(name) != config.get(name)]
        raise CheckpointError(f"{out} was begun with other settings in [{'], ['.join(changed)}]; resume with the same")
    return info


def _refuse(method: nn.Module, settings: Mapping[str, Any], checkpoint_every: int) -> None:
    """Raise for a setting that is out of range."""
    least = {"epochs": 1, "batch_size": 2, "patience": 1}
    why = {"batch_size": ": a batch of one has no negatives and no statistics"}
    wrong = faults(method, settings)
    wrong += [
        f"{name} is {settings[name]}, at least {low} is needed{why.get(name, '')}"
        for name, low in least.items()
        if settings[name] is not None and settings[name] < low
    ]
    if (budget := settings["time_budget"]) is not None and not 0 < budget < math.inf:
        wrong.append(f"time_budget is {budget}, it must be above 0 and finite")
    if not 0 <= settings["seed"] < 2**62:
        wrong.append(f"seed is {settings['seed']}, it must lie in [0, 2^62)")
    if not 0 <= settings["validation"] <= 0.5:
        wrong.append(f"validation is {settings['validation']}, it must lie in [0, 0.5]")
    if checkpoint_every < 1:
        wrong.append(f"checkpoint_every is {checkpoint_every}, at least 1 is needed")
    if wrong:
        raise ConfigError("; ".join(wrong))


def _result(summary: Mapping[str, Any], notes: tuple[str, ...]) -> Result:
    history = tuple(summary["history"])
    return Result(history, summary["steps"], summary["seconds"], summary["stopped"], summary["usable"], notes)


def _line(record: Record) -> str:
    return json.dumps(record) + "\n"


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
