"""Train recipes and store their errors over 100 unseen functions.

    python benchmarks/accuracy.py burgers quick --seeds 0 1 2
    python benchmarks/accuracy.py --all quick

Recipes are chosen on validation functions; this looks at the test functions once. Seconds include compilation.
"""

import argparse
import hashlib
import json
import statistics
import tempfile
from pathlib import Path

from results import machine, store

import seponet
from seponet.folder import RunFolder
from seponet.problems import PROBLEMS
from seponet.recipe import load_recipe
from seponet.report import evaluation_report


def measure(problem: str, recipe: str, seed: int) -> dict[str, object]:
    """One training and its evaluation against the converged and, where there is one, the paper-like reference."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        operator = seponet.train(problem, recipe, seed=seed, out=out, quiet=True)
        report = RunFolder(out).read_report()
    found = evaluation_report(operator)
    row = {"seed": seed, "seconds": report["training_seconds"], "steps": report["steps"]}
    row |= {key: found[key] for key in ("relative_l2_mean", "relative_l2_std", "rmse_mean", "reference_error")}
    row["relative_l2_max"] = max(found["per_function"]["relative_l2"])
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
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]
        content = {"problem": problem, "recipe": recipe, "recipe_hash": digest, "machine": machine()}
        rows: list[dict[str, object]] = []
        for seed in arguments.seeds:
            rows.append(measure(problem, recipe, seed))
            print(f"{problem} {recipe} seed {seed}: {rows[-1]}", flush=True)
            mean = statistics.mean(float(row["relative_l2_mean"]) for row in rows)  # pyright: ignore[reportArgumentType]
            made = {**content, "relative_l2_mean": mean, "settings": settings, "rows": rows}
            store(f"accuracy_{problem}_{recipe}", made)


if __name__ == "__main__":
    main()
