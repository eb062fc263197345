"""What a release needs: metadata that agree with one another, workflows that use what is here, and a tag that fits."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from scripts.check_tag import problems

from eventvec.cli.doctor import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {"demo", "docs", "test", "slow", "dev"}
"""Extras that `eventvec doctor` does not list: that of the demonstration joins others, the rest are for development."""
UNTESTED = {"text-quant", "ray", "spark", "postgres", "docs", "slow", "dev"}
"""Extras that `make oldest` does not install."""
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
POSIX = re.compile(r"\b(fcntl|resource|preexec_fn|mkfifo|st_mode|getrlimit|os\.fork|os\.kill|signal\.SIG\w+)\b|/proc/")


def floors(*extras: str) -> dict[str, str]:
    """Return the oldest version of each dependency of the core and of some extras, as far as there is one."""
    listed = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    parts = [re.match(r"([\w.-]+)(?:\[\w+\])?>=([\d.]+)", line) for line in listed]
    return {part[1].lower(): part[2] for part in parts if part}


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text().splitlines()
    return dict(line.lower().split("==") for line in lines if not line.startswith("#"))


def test_the_citation_has_the_version_and_the_licence_of_the_package() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^(?:version|license): (.*)$", citation, flags=re.MULTILINE) == [
        PROJECT["version"],
        PROJECT["license"],
    ]


def test_doctor_lists_the_extras_that_can_be_installed() -> None:
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - OURS


def test_the_oldest_versions_are_those_of_the_metadata() -> None:
    oldest = pins("constraints-oldest.txt")
    expected = floors(*set(PROJECT["optional-dependencies"]) - UNTESTED - {"test"})
    padded = {name: version + ".0" * (2 - version.count(".")) for name, version in expected.items()}
    assert {name: oldest.get(name) for name in padded} == padded


def test_the_workflows_name_pythons_targets_and_files_that_exist() -> None:
    texts = {path.name: path.read_text() for path in WORKFLOWS}
    assert set(texts) == {"tests.yml", "publish.yml"}
    joined = "\n".join(texts.values())
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"run: make (\w+)", joined)) == {"check", "docs", "oldest", "venv", "wheel"} <= targets
    assert all((ROOT / name).is_file() for name in re.findall(r"[\w./-]+/[\w-]+\.(?:py|txt|yml)\b", joined))
    classified = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert re.findall(r'"(3\.\d+)"', texts["tests.yml"].split("python: [")[1].split("]")[0]) == classified


def test_workflows_are_yaml_with_jobs() -> None:
    yaml = pytest.importorskip("yaml")
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            assert "uses" in job or job["steps"]


def test_portable_tests_exist_and_name_nothing_of_posix() -> None:
    places = [ROOT / line for line in (ROOT / "tests" / "portable.txt").read_text().splitlines()]
    files = [file for place in places for file in ([place] if place.suffix else place.glob("test_*.py"))]
    assert all(place.exists() for place in places)
    assert len(files) > 50
    assert [file.name for file in files if POSIX.search(file.read_text())] == []


def repository(folder: Path, version: str = "1.2.3", heading: str = "## 1.2.3 (2027-01-31)") -> Path:
    (folder / "tests" / "fixtures" / version).mkdir(parents=True)
    (folder / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n[project.urls]\nHome = ""\n')
    (folder / "CITATION.cff").write_text("type: software\nversion: 1.2.3\n")
    (folder / "CHANGELOG.md").write_text(f"# Changes\n\n{heading}\n")
    return folder


def test_a_tag_that_fits(tmp_path: Path) -> None:
    assert problems("v1.2.3", repository(tmp_path)) == []


@pytest.mark.parametrize(
    ("tag", "options", "expected"),
    [
        ("v1.2.4", {}, "must be v1.2.3"),
        ("v1.3.0", {"version": "1.3.0", "heading": "## 1.3.0 (2027-02-01)"}, "CITATION.cff has another version"),
        ("v1.2.3", {"heading": "## 1.2.3 (not yet released)"}, "CHANGELOG.md has no heading"),
    ],
)
def test_a_tag_that_does_not_fit(tmp_path: Path, tag: str, options: dict[str, str], expected: str) -> None:
    (problem,) = problems(tag, repository(tmp_path, **options))
    assert expected in problem


def test_a_release_without_fixtures_is_refused(tmp_path: Path) -> None:
    (repository(tmp_path) / "tests" / "fixtures" / "1.2.3").rmdir()
    assert "tests/fixtures/1.2.3 is missing" in problems("v1.2.3", tmp_path)[0]
