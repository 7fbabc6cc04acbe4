"""`seponet bench`: the benchmarks belong to the repository and are not part of an installation."""

import difflib
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def bench_command(arguments: Namespace) -> int:
    scripts = {path.stem: path for path in sorted(FOLDER.glob("*.py")) if not path.stem.startswith("_")}
    if not scripts:
        raise ValueError("there are no benchmarks beside this installation; run it from a checkout of the repository")
    if arguments.name is None:
        sys.stdout.write("".join(f"seponet bench {name}\n" for name in scripts))
        return 0
    if arguments.name not in scripts:
        near = difflib.get_close_matches(arguments.name, scripts, n=1, cutoff=0.4)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"there is no benchmark {arguments.name!r}{hint}; choose one of {', '.join(scripts)}")
    return min(subprocess.run([sys.executable, str(scripts[arguments.name]), *arguments.rest]).returncode, 1)
