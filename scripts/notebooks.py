"""Run the notebooks of docs/notebooks again and store what they show: python scripts/notebooks.py [NAME ...].

Without names, all of them are run, in a temporary folder each. Those that read real data find it by EVENTVEC_DATA.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
SECONDS = 1800  # of one cell, on a slow machine
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def executed(path: Path, folder: Path) -> Any:
    """Return a notebook that was run in a folder, without what differs from one run or machine to the next."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}})
    return cleaned(client.execute())


def cleaned(notebook: Any) -> Any:
    """Return a notebook without times of execution, and without warnings, which name folders of this machine."""
    import nbformat

    notebook.metadata = nbformat.from_dict(KERNEL)
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number:02}", nbformat.NotebookNode()
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def main(names: list[str]) -> None:
    """Run notebooks and write them back; a notebook that fails stays as it is."""
    import nbformat

    for path in [FOLDER / f"{name}.ipynb" for name in names] or sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, Path(folder)), path)


if __name__ == "__main__":
    main(sys.argv[1:])
