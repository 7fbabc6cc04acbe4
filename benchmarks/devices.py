"""Weak and strong scaling of a training step over devices and processes, measured here and calculated for clusters.

    python benchmarks/devices.py                  # measure (about five minutes on an idle machine), calculate, render
    python benchmarks/devices.py --render         # tables/devices.md from what is stored

Devices that share the cores of one machine can't be faster than one: what is measured here is what splitting costs, how
the memory and the communication of a device go, and that processes do no worse than devices of one process. How many
functions x points a step of real accelerators takes is calculated, from the same counts of operations and bytes and
from the hardware figures below.
"""

import argparse
import json
import math
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from results import RESULTS, machine, store

TABLE = Path(__file__).parent / "tables" / "devices.md"
PROBLEM, POINTS, FUNCTIONS, STEPS, REPEATS = "burgers", 32, 32, 4, 8
CELLS = [(1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (1, 4)]
"""Devices of a process, and processes."""

HARDWARE = {
    "name": "A100 80 GB, eight in a node",
    "flops": 19.5e12,
    "flops_used": 0.3,
    "bytes": 80e9,
    "inside": {"count": 8, "bandwidth": 300e9, "latency": 5e-6},
    "between": {"bandwidth": 25e9, "latency": 10e-6},
}
"""NVIDIA's data sheets: float32 without TF32, NVLink 600 GB/s in both directions together, InfiniBand HDR 200 Gb/s for
each device. The part of the peak that is used, and the latencies of a collective's hop, are assumptions."""

BYTES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "s64": 8, "u64": 8, "s32": 4, "u32": 4, "pred": 1, "s8": 1, "u8": 1}
COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


def communication(text: str) -> dict[str, dict[str, int]]:
    """The collective operations of a compiled program, and the bytes of their results; one in a loop counts once."""
    found: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        match = re.search(rf"= (.*?) ({'|'.join(COLLECTIVES)})(?:-start)?\(", line)
        if match:
            size = 0
            for kind, shape in re.findall(r"(\w+)\[([\d,]*)\]", match.group(1)):
                size += BYTES.get(kind, 0) * math.prod(int(n) for n in shape.split(",") if n)
            entry = found.setdefault(match.group(2), {"count": 0, "bytes": 0})
            entry["count"] += 1
            entry["bytes"] += size
    return found


def cell(arguments: argparse.Namespace) -> None:
    """One process of a measurement; the first prints what it found."""
    import jax
    import jax.numpy as jnp

    from seponet import nn
    from seponet._machine import peak_memory_bytes
    from seponet.distributed.launch import Launch
    from seponet.distributed.mesh import device_mesh
    from seponet.distributed.session import joined
    from seponet.distributed.star import Star
    from seponet.problems import PROBLEMS
    from seponet.runs.recipes import load_recipe
    from seponet.training.cost import estimate_cost
    from seponet.training.step import TrainStep

    count = arguments.processes
    launch = Launch("flags", count, arguments.process, "127.0.0.1", arguments.port)
    with joined(Star(launch) if count > 1 else None) as group:
        changes = {"train.sampling.points": POINTS, "train.functions": arguments.functions}
        recipe = load_recipe("paper", PROBLEM).changed(changes)
        model = nn.build(PROBLEMS[PROBLEM](), recipe.model, key=jax.random.key(0))
        cost = estimate_cost(model, arguments.functions, POINTS)
        step = TrainStep(model, recipe.train, cost.slab, jax.random.key(1))
        mesh = device_mesh()
        if mesh is not None:
            step.spread_over(mesh)
        program, state = step.compile(), step.start()
        times, work, loss = [], [], 0.0
        for _ in range(REPEATS + 1):
            began, busy = time.perf_counter(), time.process_time()
            state, record = step.run(state, jnp.asarray(STEPS))
            loss = float(jax.block_until_ready(record.loss))
            times.append((time.perf_counter() - began) / STEPS)
            work.append((time.process_time() - busy) / STEPS)
        # Of a repetition, the processor time of all processes together.
        work = [sum(part) for part in zip(*group.gather(work), strict=True)]
        if group.leader:
            parameters = sum(leaf.nbytes for leaf in jax.tree.leaves(state.parameters) if hasattr(leaf, "nbytes"))
            analysis = program.cost_analysis()
            found = {
                "seconds": min(times[1:]),
                "median_seconds": statistics.median(times[1:]),
                "processor_seconds": min(work[1:]),
                "loss": loss,
                "temporary_bytes": program.memory_analysis().temp_size_in_bytes,
                "peak_bytes": peak_memory_bytes(),
                "communication": communication(program.as_text()),
                "flops": (analysis[0] if isinstance(analysis, list) else analysis).get("flops", 0.0),
                "planned_flops": cost.flops,
                "parameter_bytes": parameters,
            }
            sys.stdout.write(f"RESULT {json.dumps(found)}\n")
            sys.stdout.flush()


def measure(devices: int, processes: int, functions: int) -> dict[str, Any]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    words = [sys.executable, __file__, "--cell", "--functions", str(functions), "--processes", str(processes)]
    started = [
        subprocess.Popen(
            [*words, "--port", str(port), "--process", str(i)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "XLA_FLAGS": flags},
        )
        for i in range(processes)
    ]
    texts = [process.communicate(timeout=1800) for process in started]
    lines = [line for line in texts[0][0].splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise RuntimeError(f"{devices} devices x {processes} processes failed: {texts[0][1][-500:]}")
    return {"devices": devices, "processes": processes, "functions": functions, **json.loads(lines[0][7:])}


def on_paper(strong: list[dict[str, Any]]) -> dict[str, Any]:
    """What is known of a step, and what follows for accelerators.

    Operations of a device are a + b / devices in the compiled programs; a is what every device does for itself.
    """
    one, most = strong[0], max(strong, key=lambda row: row["devices"])
    count = most["devices"]
    fixed = max(count * most["flops"] - one["flops"], 0.0) / (count - 1)
    each, memory = one["planned_flops"] / FUNCTIONS, max(one["temporary_bytes"] // FUNCTIONS, 1)
    return {
        "points": POINTS**2,
        "flops_of_a_function": each,
        "flops_of_every_device": fixed,
        "part_of_every_device": fixed / one["flops"],
        "bytes_of_a_function": memory,
        "gradient_bytes": one["parameter_bytes"],
        "rows": calculate(each, fixed, POINTS**2, one["parameter_bytes"], memory),
    }


def calculate(each: float, fixed: float, points: int, gradient: int, memory: int) -> list[dict[str, Any]]:
    """On paper: the time of a step on many accelerators, by products, an all-reduce of the gradient in a ring inside of
    a node and between nodes, and its latency.

    **Arguments:**

    - `each`: operations of a function on so many `points` (all axes together).
    - `fixed`: operations that every device does, whatever its share.
    - `gradient`: bytes that are summed over all devices.
    - `memory`: bytes that a function takes on a device.
    """
    rate = HARDWARE["flops"] * HARDWARE["flops_used"]
    inside, between = HARDWARE["inside"], HARDWARE["between"]
    rows = []
    for count in (1, 8, 64, 1024):
        nodes = -(-count // inside["count"])
        in_node = min(count, inside["count"])
        reduce = 2 * (in_node - 1) / in_node * gradient / inside["bandwidth"] + 2 * (in_node - 1) * inside["latency"]
        if nodes > 1:
            reduce += 2 * (nodes - 1) / nodes * gradient / inside["count"] / between["bandwidth"]
            reduce += 2 * math.ceil(math.log2(nodes)) * between["latency"]
        fits = int(0.8 * HARDWARE["bytes"] / memory)
        useful = fits * each / rate
        lost = fixed / rate + (reduce if count > 1 else 0.0)
        # Where a device spends as long on what is not shared, and on waiting, as on its share.
        least = max(1, math.ceil(lost * rate / each))
        rows.append(
            {
                "accelerators": count,
                "all_reduce_seconds": reduce if count > 1 else 0.0,
                "most_functions": fits * count,
                "most_functions_points": fits * count * points,
                "step_seconds": useful + lost,
                "weak_efficiency": useful / (useful + lost),
                "functions_at_half_efficiency": least * count,
            }
        )
    return rows


def render(content: dict[str, Any]) -> str:
    """The tables, in Markdown."""
    made, paper = content["machine"], on_paper(content["strong"])
    head = f"{made['time']}, {made['processor']}, {made['cores']} cores, load {made['load']:.0f}"
    lines = [
        "# A step over devices and processes",
        "",
        f"`seponet bench devices`: {head}, jax {made['versions']['jax']}.",
        f"{PROBLEM}, the paper's model, {POINTS} points along each axis. All devices share the same cores, so that",
        "time can't fall by much: times are ratios to one device with the same functions in all, and what is above 1",
        "is what splitting costs. Processor time is that of all processes together, waiting in a loop included. Of",
        f"{REPEATS} repetitions of {STEPS} steps the fastest counts, since the machine was shared (see its load).",
        "Operations and memory are those of a device, relative to one device with the functions of the first row of",
        "its table. A collective operation in a loop counts once.",
    ]
    for kind in ("strong", "weak"):
        lines += ["", f"## {kind.capitalize()} scaling", ""]
        lines += [
            "| devices x processes | functions | time | processor time | operations | memory | collectives | bytes |"
        ]
        lines += [
            "|---|---|---|---|---|---|---|---|",
            *(_measured(row, content[kind][0], content["jobs"] == 1) for row in content[kind]),
        ]
    inside, between = HARDWARE["inside"], HARDWARE["between"]
    hardware = (
        f"{HARDWARE['name']}: {HARDWARE['flops'] / 1e12:g} TFLOP/s, of which {100 * HARDWARE['flops_used']:g}% are",
        f"used; {HARDWARE['bytes'] / 1e9:g} GB; {inside['bandwidth'] / 1e9:g} GB/s and {1e6 * inside['latency']:g} us",
        f"a hop in a node, {between['bandwidth'] / 1e9:g} GB/s and {1e6 * between['latency']:g} us between nodes.",
        f"A function takes {paper['flops_of_a_function'] / 1e9:.3g} GFLOP (`estimate_cost`) and at most",
        f"{paper['bytes_of_a_function'] / 2**20:.3g} MiB (the compiler's figure for the CPU);",
        f"{paper['gradient_bytes'] / 2**20:.3g} MiB of gradient are summed in each step.",
        f"{paper['flops_of_every_device'] / 1e9:.3g} GFLOP are done by every device, however few functions it has",
        f"(trunks at all points, the optimizer): {100 * paper['part_of_every_device']:.0f}% of a step of {FUNCTIONS}",
        "functions on one device, which is why operations fall so little in the first table.",
    )
    lines += [
        "",
        "## On paper",
        "",
        *hardware,
        "Nothing of this was measured on such a machine.",
        "",
        "| accelerators | functions x points that fit | a step | efficiency | all-reduce | stops scaling below |",
        "|---|---|---|---|---|---|",
        *(_calculated(row, paper["points"]) for row in paper["rows"]),
        "",
        "Below that many functions in a step, a device spends more time on waiting and on what every device does than",
        "on its share. So a step of a hundred functions of this size does not scale over such accelerators at all;",
        "what scales is the number of functions, and the number of points that each of them has.",
        "",
    ]
    return "\n".join(lines)


def _measured(row: dict[str, Any], first: dict[str, Any], timed: bool) -> str:
    share = row["functions"] / first["functions"]
    times = [f"{row[key] / first[key] / share:.2f}" for key in ("seconds", "processor_seconds") if timed]
    collectives = ", ".join(f"{entry['count']} {name}" for name, entry in row["communication"].items()) or "none"
    size = sum(entry["bytes"] for entry in row["communication"].values())
    cells = [
        f"{row['devices']} x {row['processes']}",
        f"{row['functions']}, {row['functions'] // (row['devices'] * row['processes'])} each",
        *(times or ["not measured"] * 2),
        f"{row['flops'] / first['flops']:.2f}",
        f"{row['temporary_bytes'] / first['temporary_bytes']:.2f}",
        collectives,
        f"{size / 1024:.0f} KiB",
    ]
    return f"| {' | '.join(cells)} |"


def _calculated(row: dict[str, Any], points: int) -> str:
    cells = [
        f"{row['accelerators']}",
        f"{row['most_functions']:,} x {points:,} = {row['most_functions_points']:.1e}",
        f"{row['step_seconds']:.2g} s",
        f"{100 * row['weak_efficiency']:.1f}%",
        f"{1e3 * row['all_reduce_seconds']:.2g} ms",
        f"{row['functions_at_half_efficiency']:,} functions",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--render", action="store_true", help="only write the table from what is stored")
    parser.add_argument("--jobs", type=int, default=1, help="cells at the same time, whose times then say nothing")
    parser.add_argument("--json", action="store_true", help="print what was measured")
    parser.add_argument("--cell", action="store_true", help=argparse.SUPPRESS)
    for name in ("functions", "processes", "process", "port"):
        parser.add_argument(f"--{name}", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cell:
        cell(arguments)
        return
    if not arguments.render:
        # Eight devices have the same functions in both tables, and are measured once.
        cells = [(*cell, FUNCTIONS) for cell in CELLS]
        cells += [(d, p, FUNCTIONS // 8 * d * p) for d, p in CELLS if d * p < 8]
        with ThreadPoolExecutor(arguments.jobs) as threads:
            rows = list(threads.map(lambda cell: measure(*cell), cells))
        strong, weak = rows[: len(CELLS)], rows[len(CELLS) :]
        weak += [row for row in strong if row["devices"] * row["processes"] == 8]
        content = {
            "jobs": arguments.jobs,
            "strong": strong,
            "weak": weak,
            "hardware": HARDWARE,
            "machine": machine(),
        }
        store("devices", content)
        if arguments.json:
            print(json.dumps(content, indent=1))
    stored = json.loads((RESULTS / "devices.json").read_text())
    TABLE.write_text(render(stored))
    print(TABLE)


if __name__ == "__main__":
    main()
