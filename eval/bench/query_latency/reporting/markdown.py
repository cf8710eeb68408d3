"""Tables for a terminal and as Markdown."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from eval.bench.query_latency.reporting.results_file import Results
from eval.bench.query_latency.reporting.tables import Sheet, full, sheets

PACE = ("warm_up", "seconds")
COLLECTIONS = (
    "- **copies** are drawn with replacement, every impact perturbed by 15 %.",
    "- **mixed** images take every term from one of two images drawn so: none is near another.",
)


def shown(sheet: Sheet) -> Table:
    """For a terminal, without its title."""
    table = Table(box=SIMPLE_HEAD)
    for number, column in enumerate(sheet.columns):
        table.add_column(column, justify="right" if number else "left")
    for row in sheet.rows:
        table.add_row(*row)
    return table


def markdown(results: Results) -> str:
    """All tables, the engines' settings, what was left out, and how it was measured."""
    run = results.runs[-1]
    warm_up, seconds = (_range([one[key] for one in results.runs]) for key in PACE)
    lines = [
        "# Speed",
        "",
        f"{run['cores']} cores of {run['processor']}; visualsparta {run['package_version']}, "
        f"{run['date']}. Engines take turns in blocks of queries; each warms up for "
        f"{warm_up} s and is then timed for about {seconds} s, or ten queries, in every cell. "
        "A query has one core; indexes are built on all.",
        "",
    ]
    for sheet in [*sheets(results), full(results)]:
        lines += [f"## {sheet.title}", "", _line(sheet.columns)]
        lines.append(_line(["---"] + ["--:"] * (len(sheet.columns) - 1)))
        lines += [*(_line(row) for row in sheet.rows), ""]
    lines += ["Memory is that of the arrays or files a search reads from.", ""]
    lines += ["## Collections", "", *COLLECTIONS]
    for name, about in results.sources.items():
        facts = (f"{key} {one}" for key, one in about.items() if not isinstance(one, list))
        lines.append(f"- **{name}**: {', '.join(facts)}.")
    lines += ["", "## Engines", ""]
    for name, about in results.engines.items():
        promise = about["promise"][0].upper() + about["promise"][1:]
        lines.append(f"- **{name}**: {about['settings']}. {promise}.")
    lines += [f"- {name} was left out: {why}." for name, why in results.left_out.items()]
    return "\n".join(lines) + "\n"


def _range(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
