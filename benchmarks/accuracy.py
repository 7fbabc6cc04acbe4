"""Train recipes and store their errors over 100 unseen functions.

    python benchmarks/accuracy.py burgers quick --seeds 0 1 2
    python benchmarks/accuracy.py --all quick

Recipes are chosen on validation functions; this looks at the test functions once. Seconds include compilation.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from results import RESULTS, machine, store

import seponet
from seponet.evaluation.report import evaluation_report
from seponet.problems import PROBLEMS
from seponet.runs.folder import RunFolder
from seponet.runs.recipes import load_recipe
from seponet.training.recipe import Recipe


def kept(problem: str, recipe: str) -> list[dict[str, Any]]:
    """The seeds that were run before, if with these settings."""
    path = RESULTS / f"accuracy_{problem}_{recipe}.json"
    if not path.exists():
        return []
    stored = json.loads(path.read_text())
    return stored["rows"] if Recipe.from_dict(stored["settings"]) == load_recipe(recipe, problem) else []


def measure(problem: str, recipe: str, seed: int) -> dict[str, Any]:
    """One training and its evaluation against the converged and, where there is one, the paper-like reference."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        operator = seponet.train(problem, recipe, seed=seed, out=out, functions=0, figures=False, quiet=True)
        report = RunFolder(out).read_report()
    evaluation = evaluation_report(operator)
    row = {"seed": seed, "seconds": report["training_seconds"], "steps": report["steps"]}
    row |= {key: evaluation[key] for key in ("relative_l2_mean", "relative_l2_std", "rmse_mean", "reference_error")}
    row["relative_l2_max"] = max(evaluation["per_function"]["relative_l2"])
    try:
        row["relative_l2_mean_paper_reference"] = evaluation_report(operator, kind="paper")["relative_l2_mean"]
    except ValueError:
        row["relative_l2_mean_paper_reference"] = None
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problem", nargs="?", choices=[*PROBLEMS], help="one problem; or --all")
    parser.add_argument("recipe", nargs="?", default="quick")
    parser.add_argument("--all", metavar="RECIPE", help="this recipe for every problem that has one of its own")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments = parser.parse_args()
    recipe = arguments.all or arguments.recipe
    problems = [arguments.problem] if arguments.problem else list(PROBLEMS)
    for problem in problems:
        settings = load_recipe(recipe, problem).to_dict()
        content = {"problem": problem, "recipe": recipe, "machine": machine()}
        for seed in arguments.seeds:
            measured = measure(problem, recipe, seed)
            print(f"{problem} {recipe} seed {seed}: {measured}", flush=True)
            # Read now: another process may have stored another seed.
            others = [row for row in kept(problem, recipe) if row["seed"] != seed]
            rows = sorted([*others, measured], key=lambda row: int(row["seed"]))
            mean = statistics.mean(row["relative_l2_mean"] for row in rows)
            accuracy = {**content, "relative_l2_mean": mean, "settings": settings, "rows": rows}
            store(f"accuracy_{problem}_{recipe}", accuracy)


if __name__ == "__main__":
    main()
