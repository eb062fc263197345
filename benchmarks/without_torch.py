"""The time that onnxruntime takes for an encoder from `eventvec export`, beside torch; one thread each.

Both read tensors of real flights: 256 whole histories, one of them, and one event each after stored states.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import polars as pl
import torch
from torch import Tensor

import eventvec as ev
from benchmarks.measure import alternate, options, ratio, show, threads
from eventvec.dataset import static_values


def inputs(session: Any, x: ev.Sequences, before: list[np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Return the inputs of a graph for rows, after the states, counts and times of an earlier call if there was one."""
    sizes = {each.name: each.shape for each in session.get_inputs()}
    values = {"lengths": x.lengths.numpy(), "time": x.values("time").numpy()}
    for name in sizes:
        if name.startswith("column."):
            column = x.columns[name.removeprefix("column.")]
            if isinstance(column, Tensor):
                flat = x.values(name.removeprefix("column."))
            else:
                lists = column[x.flat()]
                flat, values[f"elements.{name.removeprefix('column.')}"] = lists.values("code"), lists.lengths.numpy()
            values[name] = (flat.float() if flat.is_floating_point() else flat.long()).numpy()
        if name.startswith("static."):
            column = static_values(x, name.removeprefix("static."))
            values[name] = (column.float() if column.is_floating_point() else column.long()).numpy()
    if "state" not in sizes:
        return values
    if before is None:  # NaN, as nothing of these states is read
        n = len(x)
        before = [
            np.full((n, sizes["state"][1]), np.nan, np.float32),
            np.zeros(n, np.int64),
            np.zeros_like(values["time"], shape=n),
        ]
    return {**values, **dict(zip(("state", "seen", "last_time"), before, strict=True))}


def main() -> None:
    """Run the benchmark."""
    parsed = options(__doc__, "without_torch").parse_args()
    flights, _ = ev.datasets.flights_frames()
    some = flights.filter(pl.col("tailnum").rank("dense") <= (40 if parsed.small else 1000))
    data = ev.read(some, key="tailnum", time="time")
    run = ev.fit(data, method="coles", epochs=1)
    encoder, settings = run.encoder, onnxruntime.SessionOptions()
    encoder.eval()
    settings.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        ev.to_onnx(run, Path(folder) / "encoder.onnx")
        megabytes = (Path(folder) / "encoder.onnx").stat().st_size / 1e6
        session = onnxruntime.InferenceSession(Path(folder) / "encoder.onnx", settings)
        ev.to_onnx(run, Path(folder) / "whole.onnx", states=False)
        stateless = onnxruntime.InferenceSession(Path(folder) / "whole.onnx", settings)
    x = data.sequences
    by_length = x.lengths.argsort()[len(x) // 4 :]  # rows of similar length go together, as a service batches them
    x = x[by_length[: 20 if parsed.small else 256]]
    middle = x[torch.tensor([len(x) // 2])]
    rows, one = torch.arange(len(x)), torch.ones_like(x.lengths)
    begun, new = x.slice(rows, 0 * one, x.lengths - one), x.slice(rows, x.lengths - one, one)
    table = []
    with threads(1), torch.inference_mode():
        stored = session.run(["new_state", "new_seen", "new_last_time"], inputs(session, begun))
        state = torch.from_numpy(stored[0])
        for name, used, part, before in (
            ("whole histories", session, x, None),
            ("whole histories, file without states", stateless, x, None),
            ("a whole history", session, middle, None),
            ("an event after each state", session, new, stored),
            ("an event after a state", session, new[torch.tensor([0])], [each[:1] for each in stored]),
        ):
            feed = inputs(used, part, before)
            initial = None if before is None else state[: len(part)]

            def by_torch(part: ev.Sequences = part, initial: Tensor | None = initial) -> Tensor:
                return encoder(part) if initial is None else encoder.read(encoder.state(part, initial))  # type: ignore[attr-defined]

            def by_onnx(used: Any = used, feed: dict[str, np.ndarray] = feed) -> np.ndarray:
                return used.run(["embedding"], feed)[0]

            seconds = alternate({"torch": by_torch, "onnx": by_onnx}, 3 if parsed.small else 20)
            quotient, least, most = ratio(seconds["torch"], seconds["onnx"])
            table.append(
                {
                    "what": name,
                    "rows": len(part),
                    "events": part.total,
                    **{f"{key}, ms": 1000 * sorted(times)[len(times) // 2] for key, times in seconds.items()},
                    "ratio": quotient,
                    "least": least,
                    "most": most,
                    "difference": float(np.abs(by_torch().numpy() - by_onnx()).max()),
                    "MB": megabytes,
                }
            )
    show("without_torch", table, {"small": parsed.small}, parsed.json)


if __name__ == "__main__":
    main()
