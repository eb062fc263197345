"""Train pytorch-lifestream's CoLES on the arrays in a folder and embed them: `python lifestream.py FOLDER`.

It runs in the environment of `make peer` and imports nothing of eventvec. `study.Study.peer` writes the arrays and
reads the embeddings.
"""

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytorch_lightning as pl
import torch
from ptls.data_load.padded_batch import PaddedBatch
from ptls.frames import PtlsDataModule
from ptls.frames.coles import ColesDataset, CoLESModule
from ptls.frames.coles.split_strategy import SampleSlices
from ptls.nn import RnnSeqEncoder, TrxEncoder


def main(folder: Path) -> None:
    """Train on the rows marked as seen, and write the embeddings of all rows."""
    settings = json.loads((folder / "settings.json").read_text())
    columns = {file.stem: torch.from_numpy(np.load(file)) for file in sorted((folder / "columns").glob("*.npy"))}
    rows = [
        {name: values[start : start + length] for name, values in columns.items()}
        for start, length in zip(*(np.load(folder / f"{name}.npy") for name in ("starts", "lengths")), strict=True)
    ]
    pl.seed_everything(settings["seed"], verbose=False)
    events = TrxEncoder(
        embeddings=settings["embeddings"], numeric_values=dict.fromkeys(settings["numeric"], "identity"),
        embeddings_noise=0.003,
    )  # fmt: skip
    encoder = RnnSeqEncoder(events, hidden_size=settings["dim"], type="gru")
    method = CoLESModule(
        encoder,
        optimizer_partial=partial(torch.optim.Adam, lr=settings["lr"]),
        lr_scheduler_partial=partial(torch.optim.lr_scheduler.CosineAnnealingLR, T_max=settings["epochs"]),
    )
    splitter = SampleSlices(settings["count"], settings["shortest"], settings["longest"])
    train = [row for row, seen in zip(rows, np.load(folder / "seen.npy"), strict=True) if seen]
    data = PtlsDataModule(
        ColesDataset(train, splitter),
        train_batch_size=settings["batch_size"],
        train_num_workers=0,
        train_drop_last=True,
    )
    trainer = pl.Trainer(
        max_epochs=settings["epochs"], accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(method, data)
    method.eval()
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]["event_time"]))
    out = np.empty((len(rows), settings["dim"]), dtype=np.float32)
    with torch.no_grad():
        for start in range(0, len(order), 64):
            part = order[start : start + 64]
            lengths = torch.tensor([len(rows[i]["event_time"]) for i in part])
            padded = {
                name: torch.nn.utils.rnn.pad_sequence([rows[i][name] for i in part], batch_first=True)
                for name in columns
            }
            out[part] = encoder(PaddedBatch(padded, lengths)).numpy()
    np.save(folder / "z.npy", out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
