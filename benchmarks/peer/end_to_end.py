"""The way of pytorch-lifestream from a Parquet file to embeddings, for `benchmarks.end_to_end`."""

from __future__ import annotations

import json
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from ptls.data_load.datasets import MemoryMapDataset, inference_data_loader
from ptls.frames import PtlsDataModule
from ptls.frames.coles import ColesDataset, CoLESModule
from ptls.frames.coles.split_strategy import SampleSlices
from ptls.nn import RnnSeqEncoder, TrxEncoder

from benchmarks.peer import theirs  # imports its preprocessing without Spark
from benchmarks.peer.stages import BATCH, CODES, HIDDEN, LONGEST, SHORTEST, SLICES, Stages


def way(path: str, out: str) -> dict[str, list[float]]:
    """Return the stages, and write the embeddings."""
    stages = Stages()
    with stages.stage("read"):
        preprocessor = theirs.PandasDataPreprocessor(
            col_id="client", col_event_time="time", event_time_transformation="none", cols_category=["code"],
            cols_numerical=["amount"], return_records=True,
        )  # fmt: skip
        records = preprocessor.fit_transform(pd.read_parquet(path))
    with stages.stage("fit"):
        torch.manual_seed(0)
        events = TrxEncoder(embeddings={"code": {"in": CODES + 2, "out": 17}}, numeric_values={"amount": "log"})
        module = CoLESModule(
            RnnSeqEncoder(trx_encoder=events, hidden_size=HIDDEN, type="gru"),
            optimizer_partial=partial(torch.optim.Adam, lr=1e-3),
            lr_scheduler_partial=partial(torch.optim.lr_scheduler.StepLR, step_size=30, gamma=0.9),
        )
        splitter = SampleSlices(split_count=SLICES, cnt_min=SHORTEST, cnt_max=LONGEST)
        loader = PtlsDataModule(
            train_data=ColesDataset(MemoryMapDataset(records), splitter), train_batch_size=BATCH, train_drop_last=True
        )
        trainer = pl.Trainer(
            max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(module, loader)
    with stages.stage("embed"), torch.no_grad():
        encoder = module.seq_encoder.eval()
        vectors = torch.cat([encoder(batch) for batch in inference_data_loader(records, batch_size=BATCH)])
        np.savez(out, keys=np.array([int(record["client"]) for record in records]), vectors=vectors.numpy())
    return stages.rows


if __name__ == "__main__":
    print(json.dumps(way(*json.loads(sys.argv[-1])[1:])))
