"""eventvec beside pytorch-lifestream in one run: each side in a process of its own, in turns, A B A B.

Both get the same data, windows, sizes of layers and optimiser. Seconds are taken inside the processes; a ratio is the
median over rounds of theirs divided by ours, beside the least and the most.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import measure
from benchmarks.peer.tables import PEER, TABLES, Bench

VERSIONS = "import json, importlib.metadata as m; print(json.dumps({p: m.version(p) for p in %r.split()}))"
PACKAGES = "pytorch-lifestream torch pandas dask pytorch-lightning"


def main() -> None:
    """Run the tables that the command line asks for."""
    parser = measure.options(__doc__, "peer")
    listed = "; ".join(f"{name}: {(table.__doc__ or '').splitlines()[0]}" for name, table in TABLES.items())
    parser.add_argument("table", nargs="?", choices=[*TABLES, "all"], default="all", help=listed)
    chosen, begun = parser.parse_args(), time.perf_counter()
    if not PEER.exists():
        raise SystemExit(f"pytorch-lifestream's environment is missing: there is no {PEER}; make it with: make peer")
    asked = [str(PEER), "-c", VERSIONS % PACKAGES]
    versions = json.loads(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    names = list(TABLES) if chosen.table == "all" else [chosen.table]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), chosen.small)
        rows = [row for name in names for row in TABLES[name](bench)]
    spent = round(time.perf_counter() - begun)
    about = {"cores": os.cpu_count(), "theirs": versions, "small": chosen.small, "seconds": spent}
    measure.show("eventvec beside pytorch-lifestream", rows, about, chosen.json)


if __name__ == "__main__":
    main()
