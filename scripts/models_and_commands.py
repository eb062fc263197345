"""Writes the table of docs/concepts/models.md: which command takes which kind of model. It runs every cell.

    python scripts/models_and_commands.py

A cell is "yes" if the command ended well, and else the number of the sentence with which it was refused.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from click.testing import Result
from typer.testing import CliRunner

from eventvec.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "concepts" / "models.md"
BEGIN, END = "<!-- table -->\n", "<!-- end -->\n"
READING = "--events events.parquet --key card --time day"
QUICK = "--set encoder.dim=4 --set fit.beside=[]"
PLACES, AT = "values at places", " --at places.parquet"
KINDS = {
    "vectors": f"fit {READING} --method coles --epochs 1 {QUICK} --out",
    "features": "features events.parquet --key card --time day -o made.parquet --save",
    "labels": f"fit {READING} --labels labels.parquet --label likes --out",
    "vectors and labels": "fit --from vectors --events events.parquet --labels labels.parquet --label likes --out",
    "network of a label": f"fit {READING} --static labels.parquet --method supervised --set method.label=likes "
    f"--no-label-time --epochs 1 {QUICK} --out",
    PLACES: "fit places.toml --epochs 1 --out",
}
"""The command that makes each kind of model; the name of the folder follows."""
COMMANDS = {
    "embed": "embed MODEL events.parquet -o out.parquet",
    "predict": "predict MODEL events.parquet -o out.parquet",
    "decide": "decide MODEL events.parquet labels.parquet --no-label-time --action 1 --case 9",
    "features": "features events.parquet --model MODEL -o out.parquet",
    "evaluate": "evaluate MODEL events.parquet labels.parquet --label likes --no-label-time "
    "--models logistic_regression",
    "compare": "compare events.parquet labels.parquet --label likes --no-label-time --run MODEL --run other "
    "--models logistic_regression",
    "report": "report MODEL events.parquet -o out.html",
    "card": "card MODEL",
    "drift": "drift events.parquet events.parquet --model MODEL",
    "audit": "audit MODEL events.parquet",
    "explain": "explain MODEL events.parquet",
    "influence": "influence MODEL events.parquet labels.parquet --label likes --no-label-time --entities 60",
    "search": "search vectors-of-MODEL.parquet --key 1",
    "export": "export MODEL -o out.onnx",
    "update": "update MODEL events.parquet --state state.db -o out.parquet",
    "surprise": "surprise MODEL events.parquet -o out.parquet",
}
"""The commands that take a model. `describe`, `labels` and `tune` take none, and `serve` takes what `update` takes."""


def write_events(folder: Path) -> None:
    """Write events of 60 cards, labels of them, a configuration, and a model to compare with."""
    rng, n, length = np.random.default_rng(0), 60, 12
    likes = rng.random(n) < 0.5
    what = np.where(rng.random((n, length)) < np.where(likes, 0.8, 0.3)[:, None], "tea", "ink")
    events = pl.DataFrame({
        "card": np.repeat(np.arange(n), length), "day": np.tile(np.arange(length), n), "what": what.ravel(),
        "paid": rng.random(n * length).astype(np.float32),
    })  # fmt: skip
    events.write_parquet(folder / "events.parquet")
    pl.DataFrame({"card": np.arange(n), "likes": likes}).write_parquet(folder / "labels.parquet")
    pl.DataFrame({"day": [3], "what": ["tea"]}).write_parquet(folder / "places.parquet")
    (folder / "places.toml").write_text(
        '[data]\npath = "events.parquet"\nkey = "card"\ntime = "day"\n[method]\nname = "cnp"\n[encoder]\ndim = 4\n'
        'events = { covariates = ["time", "what"], observations = ["paid"] }\n'
    )


def call(arguments: str) -> Result:
    """Return the result of a command in this process."""
    return CliRunner().invoke(app, arguments.split(" "))


def sentence(result: Result) -> str:
    """Return the sentence with which a command was refused, without names of models and files."""
    assert result.exit_code in (1, 2), result.output
    lines = [line for line in result.output.splitlines() if re.match(r"\w+Error: ", line)]
    assert len(lines) == 1, result.output
    text = lines[0].partition(": ")[2]
    text = re.sub(r"\b[0-9a-f]{12}\b", "…", text)
    return re.sub(r"vectors-of-[\w ]+\.parquet", "Z.parquet", text)


def cells(folder: Path) -> dict[str, dict[str, str]]:
    """Return "yes" or the sentence of each command for each kind of model, from running it in a folder."""
    write_events(folder)
    with contextlib.chdir(folder):
        for name, made in {**KINDS, "other": KINDS["vectors"]}.items():
            result = call(f"{made} {name.replace(' ', '-')}")
            assert result.exit_code == 0, result.output
        table = dict[str, dict[str, str]]()
        for command in COMMANDS:
            table[command] = {}
            for kind in KINDS:
                model = kind.replace(" ", "-")
                if command == "search":
                    embedded = call(f"embed {model} events.parquet -o vectors-of-{model}.parquet")
                    if embedded.exit_code:
                        table[command][kind] = sentence(embedded)
                        continue
                Path("state.db").unlink(missing_ok=True)
                arguments = COMMANDS[command] + AT if (command, kind) == ("predict", PLACES) else COMMANDS[command]
                result = call(arguments.replace("MODEL", model) + (" --overwrite" if " -o " in arguments else ""))
                table[command][kind] = "yes" if result.exit_code == 0 else sentence(result)
    return table


def rendered(table: dict[str, dict[str, str]]) -> str:
    """Return the table as Markdown, with the sentences below it."""
    refused = list(dict.fromkeys(cell for row in table.values() for cell in row.values() if cell != "yes"))
    lines = [f"| command | {' | '.join(KINDS)} |", f"|{' --- |' * (1 + len(KINDS))}"]
    for command, row in table.items():
        texts = [cell if cell == "yes" else f"no ({refused.index(cell) + 1})" for cell in row.values()]
        lines.append(f"| `{command}` | {' | '.join(texts)} |")
    return "\n".join([*lines, "", *(f"{place}. {text}" for place, text in enumerate(refused, 1))]) + "\n"


def with_table(page: str, table: str) -> str:
    """Return a page with another table."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}{table}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        text = rendered(cells(Path(name)))
    PAGE.write_text(with_table(PAGE.read_text(), text))
    sys.stdout.write(text)
