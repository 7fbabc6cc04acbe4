"""Tables in Markdown from stored outcomes: what was measured, what was only predicted, what failed."""

from collections.abc import Callable, Sequence
from pathlib import Path

from study import Finished, Outcome

TABLES = Path(__file__).parent / "tables"
NOTE = (
    "*≈ in italics*: not run, predicted by `seponet.plan` from the largest cell of the same problem and model that was "
    "run (its step would take more than 30 s here, or more memory than is free). –: not run yet."
)


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{'|'.join('---' for _ in columns)}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def write(name: str, parts: Sequence[str]) -> Path:
    """Write `tables/<name>.md`, a paragraph for each part."""
    TABLES.mkdir(exist_ok=True)
    path = TABLES / f"{name}.md"
    path.write_text("\n\n".join(part for part in parts if part) + "\n")
    return path


def show(outcome: Outcome | None, key: str, form: Callable[[float], str]) -> str:
    """One entry: a number, a prediction, a failure or nothing yet."""
    if outcome is None:
        return "–"
    if outcome.status == "failed":
        return f"failed ({outcome.result['reason']})"
    if key not in outcome.result:
        return "–"
    text = form(outcome.result[key])
    return text if outcome.measured else f"*≈ {text}*"


def cores(found: Finished) -> str:
    """On how many cores these cells ran."""
    counts = sorted({outcome.cores for outcome in found.values()})
    numbers = [{1: "one", 2: "two"}.get(count, str(count)) for count in counts]
    return " or ".join(numbers) + f" CPU core{'' if counts == [1] else 's'}" if counts else "a CPU"


def seconds(value: float) -> str:
    """Three digits in a fitting unit."""
    if value < 1e-3:
        return f"{1e6 * value:.3g} µs"
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s" if value < 1000 else f"{value / 3600:.2g} h"


def size(value: float) -> str:
    return f"{value / 1e6:.3g} MB" if value < 1e9 else f"{value / 1e9:.3g} GB"


def percent(value: float) -> str:
    return f"{100 * value:.3g}%"


def theirs(value: float | None, form: Callable[[float], str]) -> str:
    """An entry of the paper's."""
    return "out of memory" if value is None else form(value)


def title(problem: str) -> str:
    whole = problem.replace("diffusion_reaction", "diffusion-reaction").replace("navier_stokes", "Navier-Stokes")
    return whole[0].upper() + whole[1:].replace("_", " ")
