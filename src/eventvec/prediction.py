"""What a classifier or a regression says of each entity, as a table with the keys as they came."""

from __future__ import annotations

import pyarrow as pa
from torch import Tensor, nn

from eventvec.dataset import Dataset
from eventvec.embedding import Progress, embed
from eventvec.errors import ConfigError
from eventvec.schema import Categorical, Numeric


def predict(method: nn.Module, data: Dataset, *, progress: Progress | None = None) -> pa.Table:
    """Return one row per entity: its key, `prediction`, and for classes the chance of each, `p_` before its name.

    The data needs no labels. For the raw logits, embed with the method's predictor: ``embed(method.predictor, data)``.

    Args:
        method: trained on labels, as `Supervised` is: it has a `predictor` and says in `target` what it predicts.
        data: the entities, coded by the schema that the method was trained with.
        progress: as for `embed`.

    Raises:
        ConfigError: the method predicts no label, or the key is called like a column of the result.

    Example:
        >>> import polars as pl
        >>> import eventvec as ev
        >>> events = pl.DataFrame({"id": [1, 1, 2, 2], "t": [1, 2, 1, 2], "v": [0.5, 1.0, 2.0, 3.0]})
        >>> people = pl.DataFrame({"id": [1, 2], "age": [20.0, 60.0]})
        >>> data = ev.read(events, key="id", time="t", numeric=["v"], static=people, static_columns={"age": "numeric"})
        >>> from eventvec.methods import Supervised
        >>> method = Supervised(ev.GRU(ev.EventEncoder(data.schema), dim=4), data.schema, "age")
        >>> predict(method, data).column_names
        ['id', 'prediction']
    """
    target = getattr(method, "target", None)
    if target is None:
        raise ConfigError(f"a {type(method).__name__} predicts no label; fit with method = supervised, or evaluate it")
    out = embed(method.predictor, data, progress=progress)  # type: ignore[arg-type]
    columns = {"prediction": pa.array(out.squeeze(1).numpy())} if isinstance(target, Numeric) else _classes(target, out)
    key = data.schema.key_out
    if key in columns:
        raise ConfigError(f"the key is called {key!r}, like a column of predictions; give it another name: --key-as")
    return pa.table({key: data.keys, **columns})


def _classes(target: Categorical, logits: Tensor) -> dict[str, pa.Array]:
    chances = logits.softmax(1)
    said = pa.array(target.values, pa.string()).take(pa.array(chances.argmax(1).numpy()))
    each = zip(target.values, chances.T, strict=True)
    return {"prediction": said, **{f"p_{value}": pa.array(chance.numpy()) for value, chance in each}}
