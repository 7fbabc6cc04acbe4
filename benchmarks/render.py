"""Render stored results into README.md, between its markers. Run after any benchmark; `--check` only compares.

python benchmarks/render.py
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from results import RESULTS

from seponet.paper import FIGURES

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def stored(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def accuracy() -> list[str]:
    """The table of errors, the paper's beside ours."""
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("accuracy_*.json"))]
    if not found:
        return []
    lines = [
        "Mean relative L2 error over 100 unseen functions against a converged reference, trained on at most two cores",
        "(of a CPU; seconds include compilation); the paper's figures are the authors', from an A100.",
        "",
        "| problem | recipe | error (range over seeds) | seconds | the paper, A100 |",
        "|---|---|---|---|---|",
    ]
    for result in found:
        errors = [row["relative_l2_mean"] for row in result["rows"]]
        seconds = [row["seconds"] for row in result["rows"]]
        figure = FIGURES.get(result["problem"])
        paper = f"{_percent(figure.relative_l2_mean)}" if figure else "plot only"
        if figure and figure.training_seconds:
            paper += f" in {figure.training_seconds:.0f} s"
        spread = f" ({_percent(min(errors))} to {_percent(max(errors))})" if len(errors) > 1 else ""
        mean = sum(errors) / len(errors)
        lines.append(
            f"| {result['problem'].replace('_', ' ')} | `{result['recipe']}` | **{_percent(mean)}**{spread} "
            f"| {max(seconds):.0f} | {paper} |"
        )
    return lines


def step() -> list[str]:
    """The table of step times."""
    found = stored("step_time")
    if found is None:
        return []
    lines = [
        "",
        "Time of one training step at the paper's sizes (100 functions, CP decoder, Adam), against",
        "`separable-operator-networks` 0.0.2, interleaved in one run on two CPU cores:",
        "",
        "| problem, points | here | reference | ratio | times the matmul bound |",
        "|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        lines.append(
            f"| {row['case'].replace('_', ' ')} | {row['ms']:.0f} ms | {row['ms_reference']:.0f} ms "
            f"| **{row['ratio']:.2f}** | {row['ratio_to_bound']:.1f} |"
        )
    return lines


def rendered() -> str:
    text = README.read_text()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    body = "\n".join([*accuracy(), *step()])
    return f"{head}{BEGIN}\n{body}\n{END}{tail}"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2g}%"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail if the README is not what the results say")
    arguments = parser.parse_args()
    text = rendered()
    if arguments.check:
        sys.exit(
            0
            if text == README.read_text()
            else "README.md is not what benchmarks/results say; run benchmarks/render.py"
        )
    README.write_text(text)


if __name__ == "__main__":
    main()
