"""Random commands: valid calls of every command, with arguments replaced, added or left out, or with a password."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import typer
import workplace
from draws import chance
from pages_law import PAYLOADS

from eventvec.cli import app

INPUTS = (
    "events.parquet", "events.csv", "labels.parquet", "labels.csv", "later.parquet", "other.parquet", "z.parquet",
    "wide.parquet", "zm.parquet", "zc.parquet", "months.parquet", "p.parquet", "run", "run2", "tuned", "lstm", "judge",
    "coles", "state.db", "lstm.db", "mine.txt", "empty", "broken.parquet", "broken.csv", "folder", "link.parquet",
    "dangling.parquet", "runlink", "hostile\nname.parquet", "absent.parquet", "fifo", "", ".", "/dev/null", "[",
    "*.parquet", "folder/*", "run/model.json", "run/model.safetensors", "x" * 300, "~", "~nobody/x", "config.toml",
    "mine.txt/below", "hostile.parquet", "hostile-labels.parquet", "hostile-run", "stored", "shards", "states",
    "label.json", "z.index", "lake", "shop.db", "duckdb://shop.db#events", "duckdb://shop.db#labels",
    "duckdb://shop.db#z", "duckdb://shop.db#absent", "duckdb://absent.db#events", "duckdb://mine.txt#events",
    "duckdb://shop.db#select * from events where amount > 0", "duckdb://shop.db#select absent from events",
    "duckdb://shop.db", "delta://lake", "delta://lake#version=0", "delta://lake#version=7", "delta://folder",
    "a=events.parquet,b=other.parquet", "a=events.parquet,b=duckdb://shop.db#events", "mysql://db/shop", "file:///x",
)  # fmt: skip
OUTPUTS = (
    "out.parquet", "new/folder/out.parquet", "events.parquet", "z.parquet", "p.parquet", "mine.txt", "empty",
    "run/out.parquet", "runlink/out.parquet", "folder/out.parquet", "link.parquet", "dangling.parquet", "fifo",
    "folder", "state.db", "state.db-wal", "/dev/null", "", ".", "..", "out\nline.parquet", "\x1b[31mred.parquet",
    "x" * 300, "mine.txt/below.parquet", "run", "labels.parquet", "out", "é.parquet", "/proc/out.parquet", "-",
    "shards", "lake", "z.index", "label.json", "shop.db", "duckdb://shop.db#new", "duckdb://shop.db#z", "duckdb://shop.db#mine",
    "duckdb://new.db#z", "duckdb://mine.txt#z", "duckdb://shop.db#select 1", 'duckdb://shop.db#"a b"', "delta://new-lake",
    "delta://lake", "delta://folder", "delta://lake#version=0",
)  # fmt: skip
ROLES = ("--key", "id", "--time", "t")
SETS = (
    "encoder.dim=4", "encoder.dim=0", "encoder.dim=1000000000", "encoder.dim=four", "encoder.name=lstm",
    "encoder.name=os.system", "encoder.layers=2", "method.name=coles", "method.margin=nan", "method.margin=-1",
    "method.length=3", "method.label=label", "fit.lr=1e30", "fit.lr=0", "fit.lr=nan", "fit.batch_size=1",
    "fit.batch_size=2", "fit.validation=0.5", "fit.seed=-1", "fit.seed=99999999999999999999", "data.key=id",
    "data.keys=id", "data=3", "data.categorical=code", "data.categorical=['code']", "data.fitting={min_count=0}",
    "fit.checkpoint_every=1", "x", "=", "a.b.c.d=1", "encoder=[]", "", "method.views={name='random_slices'}",
    "encoder.events={time=['gap']}", "fit.clip=1", "fit.precision=bfloat16", "fit.schedule=step",
    "data.path=other.parquet", "encoder.dim=[[[[", "fit.epochs=true", "data.static_columns={label='text'}", "\x00=1",
    "data.holdout=0.5", "data.store=new-store", "data.path=duckdb://shop.db#events",
)  # fmt: skip
TEXTS = {
    "key": ("id", "t", "code", "absent", "", "events", workplace.KEYS[3], workplace.KEYS[0] + PAYLOADS[0]),
    "time": ("t", "id", "code", "absent", ""),
    "label": ("label", "score", "one", "id", "absent", "count", "sum:amount"),
    "columns": ("label", "label,score", "one", "id", "absent", ","), "title": ("A title", *PAYLOADS, "", "\x00"),
    "categorical": ("code", "code,amount", "id", ",", "absent", "code,code"), "numeric": ("amount", "code", "t", ""),
    "until": ("2024-01-10", "2024-01-10T00:00Z", "9999-12-31", "0001-01-01", "soon", "5", "1e400", "-1", "nan"),
    "state": ("state.db", "new.db", "lstm.db", "states", "new-states", *INPUTS),
    "store": ("stored", "new-store", "new/store", "mine.txt", "folder", "run", "stored/below", "", ".", "x" * 300),
    "names": ("hostile-labels.parquet", *INPUTS), "refresh": ("z.index", *INPUTS), "backbone": ("x", "folder", ""),
    "index": ("z.index", *INPUTS), "save": ("new.index", *OUTPUTS), "engine": ("ray", "spark", "x", ""),
    "cutoff_column": ("decided", "month", "t", "label", "absent"), "label_time": ("decided", "month", "label", "none"),
    "group": ("group", "label", "absent"), "weight": ("weight", "score", "group", "label", "absent"),
    "split_at": ("2024-01-10", "2024-01-12T00:00Z", "1970-01-01", "soon", "5", ""),
    "gap": ("1d", "12h", "0", "-1d", "soon", "1e999", "nan", "", "5"),
    "earlier_labels": ("1d", "12h", "0", "-1d", "soon", "1e999", "nan", "", "5"),
    "every": ("1mo", "1w", "12h", "5m", "0", "1s", "99999y", "soon", "5", ""), "name": ("id", "t", "churn", "", "\x00"),
    "horizon": ("1mo", "36h", "1y", "0d", "-1d", "soon", "1e999d", ""), "zone": ("Europe/Berlin", "UTC", "Berlin", ""),
    "where": ("amount>0", "amount<=nan", "code=a", "code=", "=1", "code>1", "id=1", "absent=1", PAYLOADS[0]),
    "observed_until": ("2024-01-20", "9999-12-31", "1970-01-01", "soon", "5", ""),
    "method": ("ocp", "coles", "rtd", "cpc", "next_event", "supervised", "none", "", "expclr", "tpp_embedding"),
    "methods": ("ocp,rtd", "ocp", "coles,ocp", "supervised,ocp", "x,ocp", ",", ""),
    "encoder": ("gru", "lstm", "set", "tcn", "transformer", "aggregates", "language", "x"),
    "encoders": ("gru,lstm", "set", "x", "", "gru,gru"), "text": ("tea", "", "\x00", PAYLOADS[0]),
    "of": ("yes", "no", "", "absent"),
    "device": ("cpu", "auto", "cuda", "cuda:7", "meta", "moon", "", "mps"),
    "precision": ("float32", "bfloat16", "float16"),
    "late": ("drop", "refuse", "recompute", "x"), "task": ("binary", "multiclass", "numeric", "x"), "set": SETS,
    "forget": (workplace.KEYS[0], "absent", ""), "entity": (workplace.KEYS[0], "absent", "", "7"),
    "model": ("knn", "lightgbm", "ridge", "stacked", "x", ""), "models": ("knn", "lightgbm,knn", "x", ""),
    "time_budget": ("0.01s", "0", "-1", "nan", "soon", "1e999", "h"), "key_as": ("who", "embedding", "", "a\nb"),
    "time_format": ("%Y", "%Q", "", "%Y-%m-%d %H:%M:%S"), "ties": ("keep", "x", ""), "order": ("amount", "t", "absent"),
    "fractions": ("1,0.5", "0", "x", "nan", "1e-9", ""), "batch_id": ("a", "", "é\n"), "out": ("new-run", *OUTPUTS),
    "output": OUTPUTS, "host": ("127.0.0.1", "0.0.0.0", "::1", "", "x.invalid"), "durability": ("full", "batch", "x"),
    **dict.fromkeys(
        ("cutoffs", "static", "history", "events", "from", "features", "labels", "embeddings", "protected", "among",
         "run", "at", "rule", "known", "mlflow", "tensorboard"), INPUTS),
}  # fmt: skip
NUMBERS = ("0", "1", "2", "3", "-1", "5", "0.5", "nan", "inf", "x", "", "99999999999999999999", "1e3", str(2**62))
EPOCHS = ("1", "0", "-1", "x", "2")
DECISIONS = ("evaluate", "audit", "compare", "decide", "drift", "influence", "search", "tune")
"""The commands that print a decision, and with --full everything."""
SLOW = {"doctor": 0.3, "demo": 0.3, "compare": 0.5, "tune": 0.3, "evaluate": 0.5, "report": 0.7, "influence": 0.5}
"""The weights of commands that need longer than others or can only be refused."""


@dataclass
class Call:
    """A command to run.

    Args:
        command: Its name.
        arguments: The arguments, of which the name is the first.
        valid: Whether it must end with exit code 0.
        secret: A password in the arguments, which must not be seen again; empty if there is none.
    """

    command: str
    arguments: list[str]
    valid: bool
    secret: str = ""


def calls(rng: Random) -> list[tuple[str, list[str]]]:
    """Return valid calls of every command but `demo`, which trains for minutes, and `serve`, which does not end."""
    out, events = (
        "out.parquet",
        rng.choice(("events.parquet", "events.csv", "folder", "duckdb://shop.db#events", "lake")),
    )
    run, page = rng.choice(("run", "tuned", "lstm", "runlink", "coles")), ["-o", "page.html"]
    written = rng.choice((out, out, "duckdb://new.db#z", "duckdb://shop.db#z", "delta://new-lake"))
    store = rng.choice(((), (), ("--store", "new-store")))
    label, knn = ["--label", "label"], ["--models", "knn", "--folds", "2"]
    engine = ["--engine", "local", "--shards", "2", "--workers", "1"]
    return [
        ("fit", ["--events", events, *ROLES, *store, "--method", "ocp", "--out", "new-run"]),
        ("fit", ["--events", events, *ROLES, "--out", "new-run"]),
        ("fit", ["config.toml", "--out", "new-run"]),
        ("fit", ["--events", events, "--from", rng.choice(("run", "coles")), "--out", "new-run"]),
        ("fit", ["--events", "events.parquet", *ROLES, "--method", "ocp", "--out", "run", "--resume", "--holdout",
                 "0.25"]),
        ("fit", ["--events", events, *ROLES, "--labels", "labels.parquet", *label, "--no-label-time", "--time-budget",
                 "1", "--out", "new-run"]),
        ("features", [events, *ROLES, "-o", written, *store,
                      *rng.choice(((), ("--out", "new-run"), ("--parts", "aggregates,codes")))]),
        ("embed", [run, events, "-o", written, *store]),
        ("embed", ["hostile-run", "hostile.parquet", "-o", out]),
        ("embed", ["run", "events.parquet", "--cutoffs", "months.parquet", "--cutoff-column", "month", "-o", out]),
        ("update", ["run", "later.parquet", "--state", "state.db", "-o", written]),
        ("update", ["run", events, "--state", "new.db", "-o", out]),
        ("update", ["run", "later.parquet", "--state", "state.db", "-o", out, "--index", "z.index"]),
        ("update", ["run", "--state", rng.choice(("state.db", "states")), "--forget", workplace.KEYS[3]]),
        ("predict", ["tuned", events, "-o", out]),
        ("decide", ["tuned", events, "labels.parquet", "--no-label-time", "--action", "1", "--case", "9",
                    *rng.choice(((), page, ("--net-benefit",), ("--saves", ".5", "--of", "no")))]),
        ("explain", ["tuned", *rng.choice(((), (events,), (events, "--key", workplace.KEYS[3], "--top", "2")))]),
        ("surprise", ["judge", events, "-o", out]),
        ("labels", [events, *ROLES, "--every", "1d", "--horizon", rng.choice(("2d", "36h")), "-o", out, *store,
                    *rng.choice(((), ("--label", "sum:amount"), ("--where", "amount>0", "--where", "code=a")))]),
        ("evaluate", ["z.parquet", "labels.parquet", *label, "--no-label-time", *knn, "--fractions", "1",
                      *rng.choice(((), ("--out", "page.html")))]),
        ("evaluate", ["zm.parquet", "months.parquet", *label, "--label-time", "month", *knn,
                      *rng.choice(((), ("--split-at", "2024-01-11"), ("--weight", "weight")))]),
        ("evaluate", ["duckdb://shop.db#z", "duckdb://shop.db#labels", *label, "--label-time", "none", *knn,
                      "--events", events]),
        ("influence", ["run", events, "labels.parquet", *label, "--folds", "2"]),
        ("influence", [rng.choice(("run", "tuned", "lstm")), events, "--entity", workplace.KEYS[3]]),
        ("audit", ["run", events, "--protected", "labels.parquet", "--columns", "label,score", *knn, *page]),
        ("audit", ["hostile-run", "hostile.parquet", "--protected", "hostile-labels.parquet", *knn, *page]),
        ("drift", ["lake" if events == "events.csv" else events, "other.parquet", *ROLES, *page]),
        ("drift", ["hostile.parquet", "hostile.parquet", *rng.choice((ROLES, ("--model", "hostile-run"))), *page]),
        ("drift", ["z.parquet", rng.choice(("z.parquet", "duckdb://shop.db#z")), "--permutations", "39"]),
        ("search", [rng.choice(("z.parquet", "z.index", "shards", "zc.parquet")), "--key", workplace.KEYS[3],
                    *rng.choice(((), ("-o", out), ("--events", events), ("--among", "labels.parquet")))]),
        ("search", [rng.choice(("z.parquet", "shards")), "--save", "new.index"]),
        ("describe", [events, *ROLES, *rng.choice(((), ("-o", out), ("--most", "3")))]),
        ("report", ["run", events, "labels.parquet", *label, *knn, *page]),
        ("report", ["hostile-run", "hostile.parquet", "hostile-labels.parquet", *label, *knn,
                    "--title", rng.choice(PAYLOADS), *page]),
        ("report", [run, *page]),
        ("export", [rng.choice(("run", "lstm", "runlink", "coles", "hostile-run")), "-o", "out.onnx",
                    *rng.choice(((), ("--no-states",)))]),
        ("card", [run, *(["label.json"] if run in ("run", "runlink") else []),
                  *rng.choice(((), ("-o", "card.md"), ("--save",)))]),
        ("compare", [events, "labels.parquet", *ROLES, *label, "--methods", "ocp,rtd", *knn, "--out", "compared",
                     *rng.choice(((), ("--page", "page.html")))]),
        ("compare", [events, "labels.parquet", *label, "--run", "run", "--run", rng.choice(("lstm", "coles")), *knn,
                     *rng.choice(((), ("--page", "page.html")))]),
        ("tune", [events, "labels.parquet", *ROLES, *label, "--method", "ocp", "--setting", "encoder.dim=4", "--trials",
                  "2", "--holdout", "0.4", "--folds", "2", "--out", "searched"]),
        ("doctor", []),
        *([("embed", [run, "events.parquet", "-o", "new-shards", *engine]),
           ("update", ["run", "later.parquet", "--state", "states", "-o", "new-shards", *engine])]
          if chance(rng, 0.2) else []),
    ]  # fmt: skip


def draw(rng: Random, valid: bool = False, secret: str = "", ends: bool = False) -> Call:
    """Return a call.

    Args:
        rng: The generator.
        valid: Whether it is valid.
        secret: A password to plant in it; then it is not valid.
        ends: Whether a signal ends it, so that it may be one that would train for minutes.
    """
    demo = ("demo", ["--out", "new-demo" if ends else "events.parquet"])
    serve = ("serve", [rng.choice(("run", "lstm")), "--state", rng.choice(("state.db", "new.db"))])
    every = [*calls(rng), serve, *([] if secret else [demo])]
    command, given = rng.choices(every, [SLOW.get(name, 1) for name, _ in every])[0]
    arguments, changes = list(given), 0 if valid or command == "demo" else rng.choice((0, 0, 1, 1, 2, 3))
    for _ in range(changes):
        _change(rng, command, arguments)
    if secret:
        _plant(rng, arguments, secret)
    if command in ("compare", "tune") or (command == "fit" and "--labels" not in arguments):
        arguments = ["absent.toml" if text == "fifo" else text for text in arguments]  # a configuration may be a pipe
        small = not any("encoder" in text or text in ("--from", "ocp,rtd") for text in arguments)
        arguments += ["--set", "encoder.dim=4"] if small and command == "fit" else []
        epochs = rng.choice(EPOCHS) if changes and chance(rng, 0.05) else "1"
        trains = command == "fit" or any(text.startswith("--out") for text in arguments)
        arguments += ["--epochs", epochs] if trains else []  # or it trains for minutes
    arguments += ["--port", "65536"] if command == "serve" else []  # or it does not end
    has_json = command != "card" and "--help" not in arguments
    arguments += ["--json"] if has_json and chance(rng, 0.2) else []
    arguments += ["--full"] if command in DECISIONS and "--help" not in arguments and chance(rng, 0.2) else []
    is_valid = not changes and not secret and command not in ("demo", "serve")
    return Call(command, [command, *arguments], is_valid, secret)


def _change(rng: Random, command: str, arguments: list[str]) -> None:
    """Replace, remove or add an argument."""
    act = rng.random()
    if act < 0.35 and arguments:
        place = rng.randrange(len(arguments))
        before = arguments[place - 1] if place else ""
        option = {"-o": "output"}.get(before, before.removeprefix("--").replace("-", "_"))
        arguments[place] = rng.choice(TEXTS.get(option, INPUTS))
    elif act < 0.45 and arguments:
        arguments.pop(rng.randrange(len(arguments)))
    elif act < 0.5:
        arguments.insert(rng.randint(0, len(arguments)), rng.choice((*INPUTS, "--absent", "--", "-o", "-", "--help")))
    else:
        arguments += _option(rng, command)


def parameters(command: str) -> list[Any]:
    """Return the options of a command, other than `--help`."""
    return [each for each in commands()[command].params if each.param_type_name == "option"]


@cache
def commands() -> dict[str, Any]:
    """Return the commands of the application by their names."""
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def _option(rng: Random, command: str) -> list[str]:
    """Return an option of a command with a value, which may be wrong."""
    option = rng.choice([each for each in parameters(command) if each.name != "epochs"] or [None])
    if option is None:
        return ["--absent"]
    if option.is_flag:
        return [option.opts[0]]
    return [option.opts[0], rng.choice(TEXTS.get(option.opts[0].lstrip("-").replace("-", "_"), NUMBERS))]


SECRETS = (
    "postgresql://ann:{}@127.0.0.1:1/shop#events", "postgres://ann:{}@127.0.0.1:1/shop#select * from events",
    "postgresql://127.0.0.1:1/shop?user=ann&password={}#events", "postgresql://127.0.0.1:1/shop?PASSWORD={}#events",
    "postgresql://127.0.0.1:1/shop?sslpassword={}&sslmode=require#events", "postgresql://ann:{}@127.0.0.1:1/shop",
    "postgresql://ann:p@{}@127.0.0.1:1/shop#events", "postgresql://ann:p/{}@127.0.0.1:1/shop#events",
    "postgresql://ann:p#{}@127.0.0.1:1/shop#events", "postgresql://ann:{}@127.0.0.1:port/shop#events",
    "postgresql://ann:{}@[::1/shop#events", "postgresql:/ann:{}@127.0.0.1/shop#events",
    "postgress://ann:{}@127.0.0.1/shop#events", " postgresql://ann:{}@127.0.0.1:1/shop#events",
    "POSTGRESQL://ann:{}@127.0.0.1:1/shop#events", "jdbc:postgresql://127.0.0.1:1/shop?password={}#events",
    "mysql://ann:{}@127.0.0.1/shop#events", "s3://key:{}@bucket/events.parquet", "https://ann:{}@127.0.0.1:1/e.parquet",
    "duckdb://postgresql://ann:{}@127.0.0.1:1/shop#events", "delta://s3://key:{}@bucket/lake",
    "a=postgresql://ann:{}@127.0.0.1:1/shop#events,b=events.parquet", "host=127.0.0.1 user=ann password={} dbname=shop",
    "duckdb://shop.db#select * from events where id <> '{}aB1x'",
    "duckdb://shop.db#select * from absent where id = '{}'",
    "duckdb://shop.db#select '{}' as", "duckdb://shop.db#selec id from events where id <> '{}'",
    "duckdb://absent.db#select '{}' as id", "duckdb://shop.db?password={}#events", "delta://lake#password={}",
)  # fmt: skip
"""Addresses with a password, some of them malformed, and queries with one."""


CARRIERS = (
    "--evnts", "--ouput", "--epoch", "--set", "--folds", "--seed", "--labels", "--events", "--static", "--store", "-o",
    "--cutoffs", "--state", "--history", "--features", "--out", "--model", "--title", "--device", "--label", "--until",
    "--batch-id", "--time-budget", "--mlflow", "--tensorboard", "--from", "--task", "--models",
)  # fmt: skip
"""Options, some of them misspelt, that get an address with a password."""


def _plant(rng: Random, arguments: list[str], secret: str) -> None:
    """Put an address with a password in the place of an argument, or after an option, which may be misspelt."""
    address, act = rng.choice(SECRETS).format(secret), rng.random()
    paths = [
        place for place, text in enumerate(arguments) if text in INPUTS or text in OUTPUTS or text.endswith(".html")
    ]
    if act < 0.5 and paths:
        arguments[rng.choice(paths)] = address
    elif act < 0.65 and arguments:
        arguments[rng.randrange(len(arguments))] = address
    elif act < 0.8:
        option = rng.choice(CARRIERS)
        place = rng.randint(0, len(arguments))
        arguments[place:place] = [f"{option}={address}"] if chance(rng, 0.3) else [option, address]
    elif act < 0.9:
        arguments += ["--set", f"{rng.choice(('data.path', 'data.static', 'method.label', 'x', 'data'))}={address!r}"]
    else:
        arguments.insert(rng.randint(0, len(arguments)), address)
