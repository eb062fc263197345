"""Tables of the page from stored results: a row for each kind of network, its numbers of looks beside one another."""

from __future__ import annotations

from experiments.cresp.processes import Observations
from experiments.cresp.snooker import majority_row
from experiments.cresp.snooker_networks import LOOKS, PROBES, TEST, Probe, pairs
from experiments.stored_results import Results, Row, Table, stored, text

TITLES = {Probe(LOOKS): "5 looks", Probe(9): "9 looks", PROBES["positions"][2]: "9 looks, 15,000 pairs"}


def table(results: Results, file: str, observations: Observations, batch: int) -> list[Row]:
    """Return a row for each kind of network, with the accuracy that each probe has, and what it is compared with."""
    kinds: dict[tuple[str, int], dict[Probe, Row]] = {}
    probes = {(probe.looks, probe.pairs): probe for probe in PROBES[observations]}
    for row in results[file]:
        if (row["observations"], row["batch"]) == (observations, batch):
            of_kind = kinds.setdefault((row["embedding"], row["layers"]), {})
            of_kind[probes[row["looks"], row["probe's pairs"]]] = row
    lines = [_line(of_kind) for of_kind in kinds.values()]
    return [{title: line[title] for title in line if any(other[title] != "" for other in lines)} for line in lines]


def _line(of_kind: dict[Probe, Row]) -> Row:
    first, nine = of_kind[Probe(LOOKS)], of_kind[Probe(9)]
    line: Row = {"embedding": first["embedding"], "layers": first["layers"], "paper (Table 3)": text(first["paper"])}
    for probe, row in of_kind.items():
        line[TITLES[probe]] = f"{text(row['ours'])} ± {text(row['±'])}" if row["±"] != "" else text(row["ours"])
    for title in ("difference", "CReSP ahead"):
        line |= {f"{title}, {TITLES[probe]}": _minus(row[title]) for probe, row in of_kind.items()}
    line["MetaCDE ahead, 9 looks"] = _minus(nine["MetaCDE ahead"])
    line["9 looks add"] = _minus(nine["to 5 looks"])
    line["attention adds, 9 looks"], line["256 adds, 9 looks"] = (
        _minus(nine[f"{it} adds"]) for it in ("attention", "batch")
    )
    line["the networks, 9 looks"] = nine["of the networks"].replace(" ", ", ")
    return line | {"loss": text(first["loss"], 2), "x\\* permuted": text(first["permuted"], 2)}


def _minus(signed: str) -> str:
    return signed.replace("-", "−")


def majority() -> list[Row]:
    """Return the accuracy without x*, as the table has it."""
    columns = stored("cresp")["snooker"].rows[0]
    return [dict.fromkeys(columns, "") | majority_row(pairs(False, TEST))]


TABLES: dict[str, Table] = {
    "snooker-256": lambda results: table(results, "snooker", "positions", 256),
    "snooker-64": lambda results: table(results, "snooker", "positions", 64),
    "pictures": lambda results: table(results, "pictures", "pictures", 64),
}
CELLS = {"snooker": majority}
