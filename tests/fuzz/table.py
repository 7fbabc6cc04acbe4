"""What a campaign counts."""

from dataclasses import dataclass, field


@dataclass
class Tally:
    """How many attacks of a kind were tried, refused with a sentence, harmless, and wrong (with what happened)."""

    name: str
    tried: int = 0
    refused: int = 0
    harmless: int = 0
    wrong: list[str] = field(default_factory=list)

    def count(self, outcome: str, what: str) -> None:
        """Note one attack: "refused", "harmless", or else what went wrong."""
        self.tried += 1
        if outcome == "refused":
            self.refused += 1
        elif outcome == "harmless":
            self.harmless += 1
        else:
            self.wrong.append(f"{what}: {outcome}")


def show(tallies: list[Tally]) -> str:
    """The table, and below it whatever was wrong."""
    head = f"{'attack':<34}{'tried':>8}{'refused':>10}{'harmless':>10}{'wrong':>8}"
    rows = [f"{t.name:<34}{t.tried:>8}{t.refused:>10}{t.harmless:>10}{len(t.wrong):>8}" for t in tallies]
    total = Tally(
        "all", sum(t.tried for t in tallies), sum(t.refused for t in tallies), sum(t.harmless for t in tallies)
    )
    total.wrong = [line for t in tallies for line in t.wrong]
    last = f"{'all':<34}{total.tried:>8}{total.refused:>10}{total.harmless:>10}{len(total.wrong):>8}"
    return "\n".join([head, *rows, last, *total.wrong])
