"""Splits the lists of the reference into a page for each name; `make docs` calls it on its copy of the pages.

    python scripts/reference_pages.py build

A list, such as docs/reference/eventvec.md, names what is public in entries (`::: eventvec.fit`) between headings and
sentences. In build/pages, each entry becomes a page of its own, and the list a table of names with the first sentences
of their docstrings. build/zensical.toml is zensical.toml with these pages, and those of the notebooks, in its
navigation. The sources are read, and nothing of eventvec is imported.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
REFERENCE = "docs/reference"
Navigation = list[Any]

# What the sources say


@cache
def module_body(module: str) -> tuple[ast.stmt, ...]:
    """Return the statements of a module or package, and none if there is no such module."""
    path = ROOT / "src" / module.replace(".", "/")
    files = [file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()]
    return tuple(statements(ast.parse(files[0].read_text()).body)) if files else ()


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a body, also those under an `if`, such as imports for type checkers."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            yield from statements(statement.body)


@cache
def docstring(name: str) -> str | None:
    """Return the docstring of a class, function or variable by its full name, and None if it is not defined.

    A name that a module only imports is looked up where it is defined.
    """
    module, _, short = name.rpartition(".")
    body = module_body(module)
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, (ast.ClassDef, ast.FunctionDef)) and statement.name == short:
            return ast.get_docstring(statement) or ""
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if short in [target.id for target in targets if isinstance(target, ast.Name)]:
                return text_of(following)
        if isinstance(statement, ast.ImportFrom) and statement.module:
            for alias in statement.names:
                if short == (alias.asname or alias.name):
                    return docstring(f"{statement.module}.{alias.name}")
    return None


def text_of(statement: ast.stmt | None) -> str:
    """Return the text of a statement that is a text alone, such as the docstring of a variable."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring on one line."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", paragraph)[0]


def title_of(name: str) -> str:
    """Return a name as users write it, such as `ev.fit`; the estimators stand in modules that are not public."""
    if not name.startswith("eventvec.predicting."):
        return name.replace("eventvec.", "ev.", 1)
    return f"ev.{name.rpartition('.')[2]}"


# What becomes of a list


def page_names(names: Sequence[str]) -> dict[str, str]:
    """Return the file of each name of a list, without ending.

    Where names differ in case only, they would be one file on a Mac: the class has the name, and the others a suffix.
    """
    files: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (is_constant(name), name.rpartition(".")[2].islower())):
        short = name.rpartition(".")[2]
        taken = short.lower() in {file.lower() for file in files.values()}
        files[name] = f"{short}-{'table' if is_constant(name) else 'function'}" if taken else short
    return files


def is_constant(name: str) -> bool:
    """Return whether the last part of a name is in capitals."""
    return name.rpartition(".")[2].isupper()


def split(text: str, folder: str) -> tuple[str, dict[str, str], Navigation]:
    """Return a list with tables in place of its entries, the pages of the entries by their files, and their navigation.

    Args:
        text: The list.
        folder: The folder of the pages, from that of the list.
    """
    names = re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)
    files = {name: f"{folder}/{file}.md" for name, file in page_names(names).items()}
    pages = {files[name]: entry_page(name) for name in names}
    blocks, in_table = list[str](), False
    navigation: Navigation = []
    entries = navigation
    for block in re.split(r"\n\s*\n", text.strip()):
        if not (entry := re.fullmatch(r"::: (\S+)", block)):
            blocks, in_table = [*blocks, block], False
            if block.startswith("## "):
                entries = []
                navigation.append({block.removeprefix("## "): entries})
            continue
        name = entry[1]
        sentence = first_sentence(docstring(name) or "").replace("|", "\\|")
        row = f"| [`{short_title(title_of(name))}`]({files[name]}) | {sentence} |"
        if in_table:
            blocks[-1] += f"\n{row}"
        else:
            blocks, in_table = [*blocks, f"| name | what it is or does |\n| --- | --- |\n{row}"], True
        entries.append({title_of(name): files[name]})
    return "\n\n".join(blocks) + "\n", pages, navigation


def short_title(title: str) -> str:
    """Return a title without the module of its list, so that a table has room on a phone."""
    return title if title.count(".") == 1 else title.rpartition(".")[2]


def entry_page(name: str) -> str:
    """Return the page of a name, which the generator fills."""
    title = title_of(name)
    options = "".join(f"      {key}\n" for key in ("heading_level: 1", f"heading: {title}"))
    return f"---\ntitle: {title}\n---\n\n::: {name}\n    options:\n{options}"


def below(folder: str, navigation: Navigation) -> Navigation:
    """Return a navigation whose files are named from the folder above."""
    named = []
    for entry in navigation:
        ((title, content),) = entry.items()
        named.append({title: f"{folder}/{content}" if isinstance(content, str) else below(folder, content)})
    return named


def configuration(text: str, navigations: Mapping[str, Navigation]) -> str:
    """Return zensical.toml for the folder `build`: lists of the reference have their pages, notebooks are pages."""

    def extended(match: re.Match[str]) -> str:
        title, page = match[1], match[2]
        everything = {f"All of {title}": page}
        return f'{{ "{title}" = {as_toml([everything, *navigations[page]])} }}' if page in navigations else match[0]

    text = re.sub(r'\{ "([^"]+)" = "(\S+\.md)" \}', extended, text)
    text = re.sub(r'"(docs/notebooks/\S+)\.ipynb"', r'"\1.md"', text)
    return re.sub(r'"(src|scripts/\w+\.py)"', r'"../\1"', text).replace('"build/pages"', '"pages"')


def as_toml(value: Any) -> str:
    """Return texts, lists and tables as TOML on one line."""
    if isinstance(value, list):
        return f"[{', '.join(map(as_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {as_toml(each)}' for key, each in value.items())} }}"
    return json.dumps(value, ensure_ascii=False)


def main(build: Path) -> None:
    """Split the lists in build/pages, link notebooks with their pages, and write build/zensical.toml."""
    pages, navigations = build / "pages", {}
    for path in sorted((pages / REFERENCE).glob("*.md")):
        text, entries, navigation = split(path.read_text(), path.stem)
        path.write_text(text)
        (path.parent / path.stem).mkdir()
        for file, page in entries.items():
            (path.parent / file).write_text(page)
        navigations[f"{REFERENCE}/{path.name}"] = below(REFERENCE, navigation)
    for path in pages.glob("**/*.md"):
        text = path.read_text()
        linked = re.sub(r"\]\((\S*notebooks/\w+)\.ipynb\)", r"](\1.md)", text)
        if linked != text:
            path.write_text(linked)
    for path in pages.glob("docs/notebooks/*.ipynb"):
        page = path.with_suffix(".md")
        link = f"*This page is a notebook: [{path.name}]({path.name}).*"
        page.write_text(re.sub(r"^# .*$", rf"\g<0>\n\n{link}", page.read_text(), count=1, flags=re.MULTILINE))
    (build / "zensical.toml").write_text(configuration((ROOT / "zensical.toml").read_text(), navigations))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
