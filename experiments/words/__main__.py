"""Search by words as a person would say them: how many of the histories that are meant come first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.command_line import Row, run
from experiments.words.problems import PROBLEMS, Problem
from experiments.words.readers import BAG, readers
from experiments.words.scores import mean, recalls


def human(small: bool, only: Sequence[str] | None) -> list[Row]:
    """Recall@10 of each reader: each question, then the means and their differences to the bag, with 95 % intervals."""
    return [row for name in only or PROBLEMS for row in _rows(PROBLEMS[name](small), small)]


def _rows(problem: Problem, small: bool) -> Iterator[Row]:
    """Yield a row for each question, one for their means, and one for the differences to the bag of words."""
    each = {name: recalls(similarity, problem.relevant) for name, similarity in readers(problem, small).items()}
    meant = problem.relevant.sum(1)
    for place, question in enumerate(problem.queries):
        of_one = {name: values[place] for name, values in each.items()}
        yield {"set": problem.name, "question": question, "relevant": int(meant[place]), **of_one}
    n, histories = len(problem.queries), len(problem.data)
    means = {name: str(mean(values)) for name, values in each.items()}
    yield {
        "set": problem.name,
        "question": f"mean of {n} questions, {histories:,} histories",
        "relevant": None,
        **means,
    }
    beyond = {
        name: str(mean([a - b for a, b in zip(values, each[BAG], strict=True)], signed=True))
        for name, values in each.items()
    }
    yield {"set": problem.name, "question": f"mean difference to the {BAG}", "relevant": None, **beyond}


TABLES = {"human": human}


def main() -> None:
    """Run the table that the command line names."""
    run("words", TABLES, only={"nargs": "+", "choices": list(PROBLEMS), "help": "sets to search"})


if __name__ == "__main__":
    main()
