"""The table of mapped domains, from what is stored."""

from collections.abc import Callable
from typing import Any

from geometry.domains import PROBLEMS


def domains_table(stored: Callable[[str], dict[str, Any] | None], percent: Callable[[float], str]) -> list[str]:
    """Lines of Markdown, a row for each domain.

    **Arguments:**

    - `stored`: a result by its name.
    - `percent`: a part of one in words.
    """
    lines = [
        "| domain | functions | discretisation, mean / largest | half again as fine | network, mean / largest "
        "| its `solve` at 1e-3, largest | steps | trained after; with calibration |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, kind in PROBLEMS.items():
        row = stored(f"geometry/{name}")
        if row is None:
            continue
        shown = [
            (kind.__doc__ or name).rstrip("."),
            " x ".join(str(rank) for rank in row["ranks"].values()),
            f"{percent(row['mean'])} / {percent(row['largest'])}",
            f"{percent(row['solve_mean'])} / {percent(row['solve_largest'])}",
        ]
        network = row.get("network", {})
        if "recipe" not in network:
            shown += ["not measured", "", "", ""]
        else:
            shown += [
                f"**{percent(network['mean'])}** / {percent(network['largest'])}",
                percent(network["solve_largest"]),
                str(network["steps"]),
                f"{network['trained_seconds']:.0f} s; {network['seconds']:.0f} s",
            ]
        lines.append(f"| {' | '.join(shown)} |")
    return lines
