"""The state of a training: everything that the next step depends on, so it can be stored and restored."""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from pydantic import BaseModel, FiniteFloat, NonNegativeInt
from torch import Tensor, nn

from eventvec import distributed
from eventvec.errors import CheckpointError, DataError
from eventvec.methods.declarations import Method, declared
from eventvec.models import Record, model_files
from eventvec.models.building import refusing_damage
from eventvec.models.model_files import write_tensors
from eventvec.precision import matmul_precision
from eventvec.sequences import Sequences
from eventvec.training.fit_options import FitOptions
from eventvec.training.kept_weights import best_epoch
from eventvec.training.optimizer import AVERAGES, frozen, learning_rate
from eventvec.training.validation import Split, by_entity, first_of_each, rows_per_step, validate, validation_batches

VALIDATION_SHARE = 0.1
"""The largest share of a time budget that a validation takes."""


class _Counts(BaseModel, extra="forbid"):
    """The fields of `Training` that are stored as JSON."""

    steps: NonNegativeInt
    epoch: NonNegativeInt
    within: NonNegativeInt
    seconds: FiniteFloat
    events: NonNegativeInt
    total: FiniteFloat
    waited: NonNegativeInt
    history: list[Record]
    validated: NonNegativeInt | None
    reserve: FiniteFloat


class Training:
    """The state of a training on rows, whose entities stay together if they have several, and its step."""

    def __init__(
        self, method: Method, optimizer: torch.optim.Optimizer, rng: torch.Generator, options: FitOptions, rows: Split
    ) -> None:
        self.method, self.optimizer, self.rng, self.options = method, optimizer, rng, options
        self.size = rows_per_step(options, rows.training, rows.entity)
        self.training, self.held_out = rows.training.cpu(), validation_batches(rows.held_out, self.size)
        self.entity = None if rows.entity is None else rows.entity.cpu()
        self.per_epoch = max(len(self.training) // self.size, 1)
        self.score = declared(method).score_entry  # the entry of the records, if the method declares a score
        self.steps, self.epoch, self.within, self.events, self.waited = 0, 0, 0, 0, 0
        self.seconds, self.total = 0.0, 0.0  # the seconds of all sessions, the sum of the losses of this epoch
        self.validated: int | None = None  # the batches of each validation, once the first one has shown their cost
        self.reserve = 0.0  # the seconds of a validation, which a time budget keeps for the last one
        self.step_seconds: float | None = None  # of the last step of this session
        self.best_weights: dict[str, Tensor] = {}
        self.history: list[Record] = []
        self.stopped = ""

    def begin(self) -> None:
        """Start the clock at the seconds that earlier sessions took."""
        self.clock = time.perf_counter() - self.seconds
        self._stop()

    def batches(self) -> Iterator[Tensor]:
        """Yield the rows of each remaining batch of the current epoch, on the CPU, until training stops."""
        shuffle = torch.Generator().manual_seed((self.options.seed * 1_000_003 + self.epoch) % 2**62)
        order = self.training[torch.randperm(len(self.training), generator=shuffle)]
        if self.entity is not None:
            entities = self.entity[order]
            order = by_entity(order, self.entity, entities[first_of_each(entities)])
        for rows in order[: self.per_epoch * self.size].split(self.size)[self.within :]:
            if self.stopped:
                return
            yield rows

    def step(self, batch: Sequences) -> float:
        """Take one optimizer step and return the loss."""
        begun = time.perf_counter()
        self.method.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(group["top"])
        encoder_mode = frozen(self.method, self.epoch < self.options.freeze)
        with matmul_precision(self.options.precision, batch.device), encoder_mode:
            loss: Tensor = self.method(batch, self.rng)
            loss.backward()
        distributed.average_gradients(self.method.parameters())
        value = float(loss.detach())
        if not math.isfinite(value):
            raise DataError(f"the loss became {value} at step {self.steps + 1}; lower lr or set clip")
        if self.options.clip is not None:
            nn.utils.clip_grad_norm_(self.method.parameters(), self.options.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.steps, self.within, self.total = self.steps + 1, self.within + 1, self.total + value
        now = time.perf_counter()
        self.events, self.seconds = self.events + batch.total, self._agreed(now - self.clock)
        is_first = self.step_seconds is None  # it allocates the buffers, and takes about twice as long as others
        self.step_seconds = self._agreed(now - begun) / (2 if is_first else 1)
        if self.validated is None and self.held_out:  # a step takes longer than a batch of the validation
            longest = max(self._longest_validation(), self.step_seconds)
            self.reserve = min(longest, len(self.held_out) * self.step_seconds)
        self._stop()
        return value

    def validation(self, x: Sequences) -> tuple[float | None, float | None]:
        """Return the mean loss per batch on held-out rows, and the score of these rows; None without rows or score.

        The batches are the same each time. Under a time budget, the first validation stops after a tenth of it, and
        later ones take as many batches.
        """
        begun = time.perf_counter()
        longest = self._longest_validation() if self.validated is None else math.inf
        losses, score = validate(self.method, x, self.held_out[: self.validated], self.options, longest)
        self.validated, self.reserve = len(losses), self._agreed(time.perf_counter() - begun)
        if not losses:
            return None, score
        loss = distributed.broadcast_number(sum(losses) / len(losses))  # elsewhere it may be rounded otherwise
        return loss, None if score is None else distributed.broadcast_number(score)

    def learning_rate(self, top: float) -> float:
        """Return the learning rate of the next step for weights with a highest one of `top`."""
        drops, warmup = self.epoch // self.options.step_epochs, self.options.warmup
        top *= min((self.steps + 1) / warmup, 1) if warmup else 1
        return learning_rate(top, self.options.schedule, self._share(), drops, self.options.step_factor)

    def end_epoch(self, validation: float | None, score: float | None) -> None:
        """Record the epoch, and keep its weights if they are the best so far."""
        self.seconds = self._agreed(time.perf_counter() - self.clock)
        self.history.append(self.record(self.total / max(self.within, 1), validation, score))
        self.epoch, self.within, self.total = self.epoch + 1, 0, 0.0
        if validation is not None and (self.options.patience is not None or self.options.keeps_best):
            if best_epoch(self.history, self.score) == self.epoch:
                self.waited = 0
                weights = self.method.state_dict() if self.options.keeps_best else {}
                self.best_weights = {name: value.detach().clone() for name, value in weights.items()}
            else:
                self.waited += 1
        self._stop()

    def record(self, loss: float, validation: float | None = None, score: float | None = None) -> Record:
        """Return a record of the training so far, see `Model.history`."""
        scored = {self.score: score} if self.score else {}
        return {
            "epoch": self.epoch + 1, "step": self.steps, "loss": loss, "validation": validation, **scored,
            "lr": self.learning_rate(self.options.lr), "seconds": round(self.seconds, 3),
            "events_per_second": round(self.events / max(self.seconds, 1e-9)), "share": min(self._share(), 1),
        }  # fmt: skip

    def tell(self, progress: Callable[[Record], None], record: Record) -> None:
        """Give a record to a function of the caller, whose time is not that of the training."""
        progress(record)
        self.clock = time.perf_counter() - self.seconds

    def save(self, path: Path) -> None:
        """Write the state to one file."""
        tensors = {f"method.{name}": value for name, value in self.method.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best_weights.items()}
        for index, averages in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in averages.items()}
        tensors |= {"rng": self.rng.get_state(), "torch_rng": torch.get_rng_state()}
        if (device := self.rng.device).type == "cuda":
            tensors["cuda_rng"] = torch.cuda.get_rng_state(device)
        counts = {name: vars(self)[name] for name in _Counts.model_fields}
        write_tensors(path, tensors, {"counts": json.dumps({**counts, "checksum": _checksum(tensors)})})

    def restore(self, path: Path) -> None:
        """Restore the state from a file that `save` wrote."""
        tensors, texts = model_files.read_tensors(path)
        if ("cuda_rng" in tensors) != (self.rng.device.type == "cuda"):
            there, name = ("a GPU", "cuda") if "cuda_rng" in tensors else ("a device that is no GPU", "cpu")
            raise CheckpointError(
                f"{path} was written on {there}, whose random numbers {self.rng.device.type} cannot continue; resume "
                f"with device {name}, or begin the run again in a new folder"
            )
        with refusing_damage(path, "; begin the run again in a new folder"):
            counts = dict(json.loads(texts["counts"]))
            if counts.pop("checksum", None) != _checksum(tensors):
                raise ValueError("its tensors are not those that were written")
            for name, value in _Counts.model_validate(counts).model_dump().items():
                setattr(self, name, value)
            self.best_weights = _under("best.", tensors)
            if self.best_weights:
                self.method.load_state_dict(self.best_weights)  # to compare names and shapes
            self.method.load_state_dict(_under("method.", tensors))
            optimizer = self.optimizer.state_dict()
            optimizer["state"] = self._averages(_under("optimizer.", tensors))
            self.optimizer.load_state_dict(optimizer)
            self.rng.set_state(tensors["rng"])
            torch.set_rng_state(tensors["torch_rng"])
            if "cuda_rng" in tensors:
                torch.cuda.set_rng_state(tensors["cuda_rng"], self.rng.device)

    def _averages(self, tensors: Mapping[str, Tensor]) -> dict[int, dict[str, Tensor]]:
        """Return the averages of each weight by its number, with which the names of the tensors begin."""
        shapes = [weight.shape for group in self.optimizer.param_groups for weight in group["params"]]
        averages: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            index, _, average = name.partition(".")
            averages.setdefault(int(index), {})[average] = value
        for place, values in averages.items():
            shape = shapes[place]
            if not all(value.is_floating_point() for value in values.values()):
                raise ValueError(f"the optimizer's averages of weight {place} are no real numbers")
            expected = {name: shape if each else () for name, each in AVERAGES[self.options.optimizer].items()}
            if {name: value.shape for name, value in values.items()} != expected:
                raise ValueError(f"the optimizer's averages of weight {place} are not those of its shape")
        return averages

    def _agreed(self, seconds: float) -> float:
        """Return the seconds that this process measured; where they decide when training ends, those of the first."""
        return seconds if self.options.time_budget is None else distributed.broadcast_number(seconds)

    def _share(self) -> float:
        """Return the share of the bound that is used up."""
        epochs, budget = self.options.epochs, self.options.time_budget
        by_time = self.seconds / (budget - min(self.reserve, budget / 2)) if budget else 0.0
        return max(self.steps / (epochs * self.per_epoch) if epochs else 0.0, by_time)

    def _longest_validation(self) -> float:
        budget = self.options.time_budget
        return math.inf if budget is None else VALIDATION_SHARE * budget

    def _stop(self) -> None:
        epochs, budget, patience = self.options.epochs, self.options.time_budget, self.options.patience
        if epochs is not None and self.epoch >= epochs:
            self.stopped = "epochs"
        elif budget is not None and self.seconds + (self.step_seconds or 0) > budget - self.reserve:
            self.stopped = "time"
        elif patience is not None and self.waited >= patience:
            self.stopped = "early stopping"


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    """Return the CRC-32 of named tensors, by which a changed bit is noticed."""
    value = 0
    for name, tensor in sorted(tensors.items()):
        value = zlib.crc32(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode(), value)
        value = zlib.crc32(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data, value)
    return value


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
