"""Render stored results into README.md and the pages of the site that show them, between their markers. Run after any
benchmark; `--check` only compares.

python benchmarks/render.py
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from geometry.table import domains_table
from results import RESULTS
from tables import seconds
from zoo_tables import trained_table

from seponet.problems import PROBLEMS
from seponet.problems.published import FIGURES, NAVIER_STOKES_LONG

ROOT = Path(__file__).parent.parent
README, PAGE, GEOMETRY = ROOT / "README.md", ROOT / "docs" / "benchmarks.md", ROOT / "docs" / "geometry.md"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


TIMES = ("T=0.1", "T=1")
FLOORS = {
    "persistence": "the initial state, unchanged",
    "truncated_dynamics": "a spectral solver with the same waves",
    "projection": "the best with these waves",
}


def stored(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def every(kind: str) -> list[dict[str, Any]]:
    """All results of a kind, by problem and recipe."""
    found = [json.loads(path.read_text()) for path in RESULTS.glob(f"{kind}_*.json")]
    return sorted(found, key=lambda result: (result["problem"], result["recipe"]))


SHOWN = ("best", "quick")
"""Recipes of the README's table."""


def accuracy(short: bool = False) -> list[str]:
    """The table of errors, the paper's beside ours; a short one has the problems of the paper alone."""
    results = every("accuracy")
    if short:
        results = [r for r in results if r["recipe"] in SHOWN and not r["problem"].endswith("_informed")]
    if not results:
        return []
    lines = [
        "Mean relative L2 error over 100 unseen functions against a converged reference, trained on at most two cores",
        "(of a CPU; seconds include compilation); the paper's figures are the authors', from an A100. The first column",
        "says what a model knows besides the equation.",
        "",
        "| problem | recipe | error (range over seeds) | seconds | the paper, A100 |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        errors = [row["relative_l2_mean"] for row in result["rows"]]
        longest = max(row["seconds"] for row in result["rows"])
        figure = FIGURES.get(result["problem"].removesuffix("_informed"))
        paper = f"{_percent(figure.relative_l2_mean)}" if figure else "plot only"
        if figure and figure.training_seconds:
            paper += f" in {figure.training_seconds:.0f} s"
        spread = f" ({_percent(min(errors))} to {_percent(max(errors))})" if len(errors) > 1 else ""
        mean = sum(errors) / len(errors)
        name = _name(result["problem"]) + (", translations built in" if _invariant(result) else "")
        shown = [name, f"`{result['recipe']}`", f"**{_percent(mean)}**{spread}", f"{longest:.0f}"]
        lines.append(f"| {' | '.join([*shown, paper])} |")
    return lines


def navier_stokes() -> list[str]:
    """The flow: one window, and ten of them composed, next to what other answers would get."""
    results = {recipe: stored(f"navier_stokes_{recipe}") for recipe in ("quick", "best")}
    best = results["best"]
    if best is None:
        return []
    lines = [
        "",
        "## Navier-Stokes over ten windows",
        "",
        "Navier-Stokes on [0, 2 pi]^2 (viscosity 0.01, speeds up to 5), relative error of the velocity over 100 unseen",
        "initial states; T = 1 is ten composed windows of 0.1, and no state blows up:"
        if not best["T=1"]["blown_up"]
        else f"initial states; T = 1 is ten composed windows of 0.1, and {best['T=1']['blown_up']} states blow up:",
        "",
        "| | T = 0.1 | T = 1 | seconds |",
        "|---|---|---|---|",
    ]
    for recipe, result in results.items():
        if result is not None:
            errors = [f"**{_percent(result[t]['relative_l2']['mean'])}**" if t in result else "" for t in TIMES]
            lines.append(f"| `{recipe}` | {errors[0]} | {errors[1]} | {result['training_seconds']:.0f} |")
    for key, name in FLOORS.items():
        errors = [_percent(best[t]["floors"][key]["mean"]) for t in TIMES]
        lines.append(f"| {name} | {errors[0]} | {errors[1]} | |")
    theirs = [_percent(figure.relative_l2_mean) for figure in (FIGURES["navier_stokes"], NAVIER_STOKES_LONG)]
    return [
        *lines,
        f"| the paper, A100 | {theirs[0]} | {theirs[1]} | |",
        "",
        "![Vorticity](../benchmarks/figures/navier_stokes_vorticity.png)",
    ]


def trust() -> list[str]:
    """What a new function costs: predicted, with its error, corrected, and by a solver."""
    results = [json.loads(path.read_text()) for path in sorted((RESULTS / "trust").glob("*.json"))]
    results = [r for r in results if r["status"] == "measured" and r["cell"]["problem"] in PROBLEMS]
    if not results:
        return []
    lines = [
        "",
        "## What a new function costs",
        "",
        "A new function, in processor time: predicted by the network in a batch; with its error; corrected to the",
        "network's own mean error (`operator.solve`, without a reference solution); and by the problem's solver at the",
        "coarsest resolution that is as accurate:",
        "",
        "| problem | network | prediction | with its error | corrected | solver |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        row = result["result"]["in"]
        names = ("predict", "predict_with_error", "correct", "tailored")
        times = [seconds(1e-3 * row["costs"][name]) for name in names]
        lines.append(f"| {_name(result['cell']['problem'])} | {_percent(row['error'])} | {' | '.join(times)} |")
    return lines


def step() -> list[str]:
    """The table of step times."""
    result = stored("step_time")
    if result is None:
        return []
    lines = [
        "",
        "## A training step",
        "",
        "Time of one training step at the paper's sizes (100 functions, CP decoder, Adam), against",
        "`separable-operator-networks` 0.0.2, interleaved in one run on two CPU cores:",
        "",
        "| problem, points | here | reference | ratio | times the matmul bound |",
        "|---|---|---|---|---|",
    ]
    # Products between long steps find cold caches; what the machine can do is the best that it did in the run.
    best = max(row["gflops_matmul"] for row in result["rows"])
    for row in result["rows"]:
        to_bound = row["ratio_to_bound"] * best / row["gflops_matmul"]
        lines.append(
            f"| {row['case'].replace('_', ' ')} | {row['ms']:.0f} ms | {row['ms_reference']:.0f} ms "
            f"| **{row['ratio']:.2f}** | {to_bound:.1f} |"
        )
    return lines


def zoo() -> list[str]:
    """Other people's PDEs, solved without a network: what was announced, and what is true."""
    result = stored("zoo_solve")
    if result is None:
        return []
    rows = result["rows"]
    first = rows[0]
    reached = sum(row["reached"] == row["functions"] for row in rows)
    lines = [
        "",
        "## Other people's PDEs",
        "",
        f"Other people's PDEs (`benchmarks/zoo/`), solved without a network (`seponet bench zoo --solve`): "
        f"{first['functions']} functions each to",
        f"{_percent(first['tolerance'])}, reached for all functions of {reached} of {len(rows)}. Errors are the mean "
        "and the largest over functions,",
        "announced by the library and true by an independent reference; set-up is the choice of the discretisation, "
        "compilation included:",
        "",
        "| PDE | functions along each axis | announced | true | largest true / announced | set-up | reached |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        shown = [
            row["problem"],
            " x ".join(f"{name} {rank}" for name, rank in row["ranks"].items()),
            f"{_percent(row['announced_mean'])} / {_percent(row['announced_max'])}",
            f"{_percent(row['true_mean'])} / {_percent(row['true_max'])}",
            f"{row['worst_ratio']:.2g}",
            f"{row['setup_seconds']:.0f} s",
            f"{row['reached']} of {row['functions']}",
        ]
        lines.append(f"| {' | '.join(shown)} |")
    return lines + trained_table(stored, _percent, {row["problem"]: row["true_mean"] for row in rows})


def rendered() -> dict[Path, str]:
    """What each document should say."""
    parts = {
        README: accuracy(short=True),
        PAGE: [*accuracy(), *navier_stokes(), *trust(), *step(), *zoo()],
        GEOMETRY: domains_table(stored, _percent),
    }
    return {path: between_markers(path, lines) for path, lines in parts.items()}


def between_markers(path: Path, lines: list[str]) -> str:
    """The text of a document with other lines between its markers."""
    head, rest = path.read_text().split(BEGIN)
    body = "\n".join(lines)
    return f"{head}{BEGIN}\n{body}\n{END}{rest.split(END)[1]}"


def _name(problem: str) -> str:
    plain = problem.removesuffix("_informed")
    return plain.replace("_", " ") + ("" if plain == problem else ", structure-informed")


def _invariant(result: dict[str, Any]) -> bool:
    """Whether the model knows that the equation looks the same everywhere along an axis."""
    return bool(result["settings"]["model"].get("invariant"))


def _percent(fraction: float) -> str:
    if fraction >= 1:
        return f"{100 * fraction:.0f}%"
    return f"{100 * fraction:.2g}%"


def write() -> None:
    """All documents, from what is stored."""
    for path, text in rendered().items():
        path.write_text(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if a document is not what the results say")
    arguments = parser.parse_args()
    if not arguments.check:
        write()
    for path, text in rendered().items():
        if text != path.read_text():
            sys.exit(f"{path.name} is not what benchmarks/results say; run benchmarks/render.py")


if __name__ == "__main__":
    main()
