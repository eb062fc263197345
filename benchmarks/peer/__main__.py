"""eventvec beside pytorch-lifestream in one run: each side in a process of its own, in turns (A B A B).

Both sides get the same data, windows, layer sizes and optimiser. Seconds are measured inside the processes. A ratio is
the median over rounds of their seconds divided by ours, with the least and the largest ratio.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import measure
from benchmarks.peer.comparisons import PEER, TABLES, Bench

VERSIONS = "import json, importlib.metadata as m; print(json.dumps({p: m.version(p) for p in %r.split()}))"
PACKAGES = "pytorch-lifestream torch pandas dask pytorch-lightning"


def main() -> None:
    """Run the tables that the command line names."""
    parser = measure.options(__doc__, "peer")
    listed = "; ".join(f"{name}: {(table.__doc__ or '').splitlines()[0]}" for name, table in TABLES.items())
    parser.add_argument("table", nargs="?", choices=[*TABLES, "all"], default="all", help=listed)
    parsed, start = parser.parse_args(), time.perf_counter()
    if not PEER.exists():
        raise SystemExit(f"pytorch-lifestream's environment is missing: there is no {PEER}; make it with: make peer")
    command = [str(PEER), "-c", VERSIONS % PACKAGES]
    versions = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    names = list(TABLES) if parsed.table == "all" else [parsed.table]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), parsed.small)
        rows = [row for name in names for row in TABLES[name](bench)]
    seconds = round(time.perf_counter() - start)
    about = {"cores": os.cpu_count(), "theirs": versions, "small": parsed.small, "seconds": seconds}
    measure.show("eventvec and pytorch-lifestream", rows, about, parsed.json)


if __name__ == "__main__":
    main()
