#!/usr/bin/env python3
"""Plots what ./dev simulate found: commits over time, and conflicts, on stock Delta and with merging.

Usage: simulate.py BUILD_SIMULATE_DIR
"""
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

SIDES = {"stock": ("stock Delta, with retry", "tab:red"), "merging": ("delta-rlc", "tab:green")}


def main():
    folder = Path(sys.argv[1])
    result = json.loads((folder / "result.json").read_text())
    mix, runs = result["mix"], result["runs"]
    figure, (time, bars) = plt.subplots(1, 2, figsize=(11, 4.5), width_ratios=[3, 2])
    labelled = set()
    for run in runs:
        label, color = SIDES[run["side"]]
        seconds = [0] + [ms / 1000 for ms in run["outcome"]["commits"]]
        time.step(seconds, range(len(seconds)), where="post", color=color,
                  label=None if label in labelled else label)
        labelled.add(label)
    time.set_xlabel("seconds")
    time.set_ylabel("statements committed")
    time.legend(loc="lower right")
    statements = mix["writers"] * mix["statements"]
    time.set_title(f"{mix['writers']} writers with {mix['statements']} statements each", fontsize="medium")
    for index, (side, (label, color)) in enumerate(SIDES.items()):
        outcomes = [run["outcome"] for run in runs if run["side"] == side]
        conflicts = sum(sum(o["conflicts"].values()) for o in outcomes) / len(outcomes)
        bars.bar(index, conflicts, color=color)
        bars.annotate(f"{conflicts:.0f}", (index, conflicts), ha="center", va="bottom")
        print(f"{label}: {statements} statements, {conflicts:.1f} conflicts, "
              f"{sum(o['millis'] for o in outcomes) / len(outcomes) / 1000:.1f} s")
    bars.set_xticks(range(len(SIDES)), [label for label, _ in SIDES.values()])
    bars.set_ylabel("conflicts, each a statement run again")
    weights = ", ".join(f"{kind} {weight:g}" for kind, weight in mix["mix"].items())
    bars.set_title(f"{weights}; overlap {mix['overlap']:g}", fontsize="medium")
    figure.tight_layout()
    figure.savefig(folder / "simulation.png", dpi=120)
    print(folder / "simulation.png")


if __name__ == "__main__":
    main()
