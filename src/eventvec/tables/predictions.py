"""What a classifier or a regression says of each entity, as a table with the keys as they came."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventvec.files import whole
from eventvec.tables.embeddings import MARK


def write_predictions(path: str | Path, table: pa.Table, metadata: Mapping[str, Any] | None = None) -> None:
    """Write what `predict` returned as a Parquet file, which appears whole or not at all and only its owner may read.

    Args:
        path: the file, which is replaced if it is there; folders above it are made.
        table: the predictions.
        metadata: what the file's metadata holds, as JSON can.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_predictions(f"{folder}/p.parquet", pa.table({"id": [7], "prediction": [0.5]}))
        ...     pq.read_table(f"{folder}/p.parquet").to_pylist()
        [{'id': 7, 'prediction': 0.5}]
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as draft:
        pq.write_table(table.replace_schema_metadata({MARK: json.dumps(dict(metadata or {}))}), draft)
