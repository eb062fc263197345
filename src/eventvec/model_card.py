"""The model card of a run: what the model was made of, and what its embedding may reveal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eventvec.schema import FIRST, Schema


def render_card(
    config: Mapping[str, Mapping[str, Any]], schema: Schema, info: Mapping[str, Any], remark: str = ""
) -> str:
    """Return the model card as Markdown.

    Args:
        config: The run's configuration.
        schema: What the columns of its events mean.
        info: Its finished `run.json`.
        remark: A paragraph about the method's embedding.
    """
    categorical = ", ".join(
        f"`{column.name}` ({column.size - FIRST} {'buckets' if column.buckets else 'values'})"
        for column in (*schema.categorical, *schema.bags)
    )
    numeric = ", ".join(f"`{column.name}`" for column in schema.numeric)
    static = ", ".join(f"`{column.name}`" for column in schema.static)
    libraries = ", ".join(f"{name} {number}" for name, number in info["versions"].items())
    labels = ", ".join(f"`{name}`" for name in info["labels"])
    columns = "column" if len(info["labels"]) == 1 else "columns"
    supervision = f"from the static {columns} {labels}" if labels else "without labels"
    start = f" The training started from run {info['from']}." if "from" in info else ""
    beside = ", ".join(f"`{name}`" for name in info.get("beside", {}))
    parts = f"| beside the learned part | {beside} |\n" if beside else ""
    counts = {name: f"{info[name]:,}" for name in ("entities", "events") if name in info}
    return f"""# Run {info["id"]}

An encoder of event histories that eventvec trained {supervision}, with the method `{config["method"]["name"]}` and the
encoder `{config["encoder"]["name"]}`.{start}
{remark and f"{chr(10)}{remark.strip()}{chr(10)}"}
| | |
| --- | --- |
| {", ".join(counts)} | {", ".join(counts.values())} |
| categorical columns | {categorical or "none"} |
| numeric columns | {numeric or "none"} |
| static columns used | {static or "none"} |
{parts}| steps, seconds | {info["steps"]:,}, {info["seconds"]:.0f} |
| stopped by | {info["stopped"]} |
| seed | {info["seed"]} |
| data fingerprint | `{info["fingerprint"]}` |
| libraries | {libraries} |

`config.toml` has every setting, `metrics.jsonl` the course of training, `schema.json` the vocabularies. Values that
occur fewer times than the minimum count are in no file.

## Before you use it

An embedding can reveal what was never a column: where someone lives, their age, their health. Measure it: evaluate the
embedding with the protected attribute as the label, beside aggregates, before the embedding leaves the team that may
see the events. The embedding describes the entities and the time that it was trained on; its scores on others have to
be measured.
"""
