"""Say whether the files of the repository are those of a release.

``python scripts/check_tag.py v0.1.0`` ends with an error unless pyproject.toml and CITATION.cff have this version,
CHANGELOG.md has the date of its release, and tests/fixtures has files that it wrote. It needs no package.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def problems(tag: str, root: Path) -> list[str]:
    """Return what a release with this tag lacks, one sentence each."""
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    if tag != f"v{version}":
        return [f"the tag must be v{version}, the version of pyproject.toml, got {tag}"]
    lacking = []
    if "urls" not in tomllib.loads((root / "pyproject.toml").read_text())["project"]:
        lacking.append("pyproject.toml has no [project.urls], and PyPI cannot follow the README's relative links")
    if f"\nversion: {version}\n" not in (root / "CITATION.cff").read_text():
        lacking.append(f"CITATION.cff has another version than {version}")
    heading = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(heading, (root / "CHANGELOG.md").read_text(), flags=re.MULTILINE):
        lacking.append(f"CHANGELOG.md has no heading `## {version} (YYYY-MM-DD)`")
    if not (root / "tests" / "fixtures" / version).is_dir():
        lacking.append(f"tests/fixtures/{version} is missing; python scripts/fixtures.py writes it")
    return lacking


def main() -> None:
    """Check the tag that is the first argument."""
    if len(sys.argv) != 2:
        raise SystemExit("usage: python scripts/check_tag.py v0.1.0")
    if lacking := problems(sys.argv[1], ROOT):
        raise SystemExit("\n".join(lacking))


if __name__ == "__main__":
    main()
