"""One training of several processes, one of which is killed at ten random moments: nothing hangs, nothing is lost.

    python benchmarks/kills.py [--kills 10] [--seed 0]
    python benchmarks/kills.py --render           # tables/kills.md from what is stored

Every attempt goes on from what the last one left, with two or three processes by turns. A random one is killed at a
random moment: in every third attempt of its start, while it loads and compiles, in the others of its training. Stored
are how long the others took to end, and how far the final state is from that of an undisturbed run of one process.
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from results import RESULTS, machine, store

TABLE = Path(__file__).parent / "tables" / "kills.md"
TESTS = Path(__file__).parent.parent / "tests"
PROBLEM, RECIPE = f"{TESTS / 'data' / 'decay.py'}:Decay", TESTS / "data" / "decay.toml"
STEPS = 6000


def command(out: Path, *more: str) -> list[str]:
    words = [sys.executable, "-m", "seponet", "train", PROBLEM, "--recipe", str(RECIPE), "--out", str(out)]
    words += ["--set", f"train.steps={STEPS}", "--set", "train.checkpoint=0.5", "--functions", "0"]
    return [*words, "--calibration", "0", "--no-figures", *more]


def start(count: int, out: Path) -> list[subprocess.Popen]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    group = ["--processes", str(count), "--coordinator", f"127.0.0.1:{port}", "--process-id"]
    resume = ["--resume"] if (out / "config.toml").exists() else []
    return [
        subprocess.Popen([*command(out, *resume, *group, str(i))], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        for i in range(count)
    ]


def last_state(out: Path) -> tuple[int, list[np.ndarray]]:
    newest = max((out / "checkpoints").glob("*.npz"), key=lambda path: int(path.stem))
    with np.load(newest) as stored:
        return int(newest.stem), [stored[name] for name in sorted(stored.files) if name != "meta"]


def log_size(out: Path) -> int:
    log = out / "metrics.jsonl"
    return log.stat().st_size if log.exists() else 0


def attempt(count: int, out: Path, victim: int, after: float, training: bool) -> dict[str, Any]:
    """Kill one process, so many seconds after the start or after the first block of steps, and see how long the others
    live."""
    processes = start(count, out)
    time.sleep(1.0)
    before, deadline = log_size(out), time.monotonic() + 300
    while training and log_size(out) <= before and all(p.poll() is None for p in processes):
        # What an earlier attempt logged after its last checkpoint is cut off at the start.
        before = min(before, log_size(out))
        time.sleep(0.05)
        if time.monotonic() > deadline:
            break
    time.sleep(after)
    running = [process.poll() is None for process in processes]
    processes[victim].send_signal(signal.SIGKILL)
    began, seconds, said = time.monotonic(), [], []
    for i, process in enumerate(processes):
        try:
            _, errors = process.communicate(timeout=200)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
        if i != victim:
            seconds.append(time.monotonic() - began)
            said += [line for line in errors.decode().splitlines() if line.startswith("seponet")]
    steps = last_state(out)[0] if list((out / "checkpoints").glob("*.npz")) else 0
    return {
        "processes": count,
        "killed": victim,
        "while": "training" if training else "starting",
        "after_seconds": after,
        "all_running": all(running),
        "others_ended_after_seconds": max(seconds),
        "codes": [process.returncode for process in processes],
        "said": said,
        "checkpoint": steps,
    }


def render(content: dict[str, Any]) -> str:
    """The table, in Markdown."""
    made, rows = content["machine"], content["rows"]
    slowest = max(row["others_ended_after_seconds"] for row in rows)
    step, last = content["steps"]
    lines = [
        "# Kills of a training by several processes",
        "",
        f"`seponet bench kills`: {made['time']}, {made['processor']}, {made['cores']} cores, load {made['load']:.0f}.",
        f"One training by two or three processes, one of which was killed {len(rows)} times; each attempt went on from",
        f"what the last had left. The others ended after at most {slowest:.1f} s, with a sentence that names who was",
        f"lost. In the end it had {step} of {last} steps, and a state that differs by at most",
        f"{content['distance']:.1e} from that of an undisturbed run of one process.",
        "",
        "| processes | killed | while | the others ended after | steps kept | they said |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        after = f"{row['while']}, {row['after_seconds']:.1f} s"
        ended = f"{row['others_ended_after_seconds']:.1f} s"
        cells = [
            str(row["processes"]),
            str(row["killed"]),
            after,
            ended,
            str(row["checkpoint"]),
            "; ".join(row["said"]),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=40.0, help="the latest moment of a start, in seconds")
    parser.add_argument("--render", action="store_true", help="only write the table from what is stored")
    arguments = parser.parse_args()
    if not arguments.render:
        measure(arguments)
    TABLE.write_text(render(json.loads((RESULTS / "kills.json").read_text())))
    print(TABLE)


def measure(arguments: argparse.Namespace) -> None:
    chance = random.Random(arguments.seed)
    os.environ.setdefault("NPROC", "1")
    with tempfile.TemporaryDirectory() as folder:
        out, alone = Path(folder) / "run", Path(folder) / "alone"
        rows = []
        for number in range(arguments.kills):
            count = 2 + number % 2
            training = number % 3 != 1
            after = chance.uniform(0.0, 4.0 if training else arguments.longest)
            rows.append(attempt(count, out, chance.randrange(count), after, training))
            print(rows[-1], flush=True)
        resume = ["--resume"] if (out / "config.toml").exists() else []
        for words in (command(out, *resume), command(alone)):
            subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (step, mine), (last, theirs) = last_state(out), last_state(alone)
        distance = max(float(np.max(np.abs(a - b), initial=0)) for a, b in zip(mine, theirs, strict=True))
    content = {"rows": rows, "steps": [step, last], "distance": distance, "seed": arguments.seed, "machine": machine()}
    print(store("kills", content))
    print(f"{step} of {last} steps, at most {distance:.1e} from the undisturbed run")


if __name__ == "__main__":
    main()
