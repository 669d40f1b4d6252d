#!/usr/bin/env python3
"""Makes docs/benchmarks.md and its plot from what ./dev bench left in build/bench.

Usage: benchmarks.py BUILD_BENCH_DIR OUTPUT_DIR
The section of a benchmark that has not been run there stays as it is in the file, or names the command.
"""
import json
import platform
import re
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "delta-rlc"  # the same input gives the same file
import matplotlib.pyplot as plt  # noqa: E402


def table(rows):
    """Markdown of a list of dicts with the same keys."""
    def cell(value):
        if isinstance(value, str):  # JSON has no NaN
            return "" if value == "NaN" else value
        if isinstance(value, float):
            return f"{value:,.0f}" if value == int(value) or value >= 100 else f"{value:,.2f}"
        return f"{value:,}"

    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(row[c]) for c in columns) + " |" for row in rows]
    return "\n".join(lines)


def version(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().splitlines()[0] if done.returncode == 0 else "unknown"


def machine():
    cpu = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(": ", 1)[1]
            break
    cores = Path("/proc/cpuinfo").read_text().count("processor\t")
    memory = int(re.search(r"MemTotal: +(\d+)", Path("/proc/meminfo").read_text()).group(1)) >> 20
    return (f"{cpu}, {cores} cores, {memory} GiB; {platform.system()}; "
            f"{version(['java', '-version'])}; {version(['rustc', '--version'])}")


def jmh_ratios(text):
    """Shape, ratios (plain Java, native with copies, native in place) and goal of each row."""
    found = []
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip("| \n").split("|")]
        if len(cells) == 9 and re.fullmatch(r"[\d.,]+", cells[8]):
            number = [float(cells[i].replace(",", "")) for i in (3, 5, 7, 8)]
            found.append((cells[0], *number))
    return found


def plot(ratios, target):
    shapes = [r[0] for r in ratios]
    y = range(len(shapes))
    figure, axes = plt.subplots(figsize=(9, 0.5 * len(shapes) + 1.5))
    for offset, index, label in ((0.25, 1, "the same in plain Java"), (0, 2, "delta-rlc, request and copy of the result included"),
                                 (-0.25, 3, "delta-rlc, in place")):
        axes.barh([i + offset for i in y], [r[index] for r in ratios], height=0.24, label=label)
    axes.plot([r[4] for r in ratios], list(y), "k|", markersize=14, label="goal")
    axes.set_xscale("log")
    axes.axvline(1, color="grey", linewidth=0.8)
    axes.set_yticks(list(y), shapes)
    axes.invert_yaxis()
    axes.set_xlabel("CPU time of Delta's own code divided by this one's (more is faster)")
    axes.legend(loc="lower right", fontsize="small")
    figure.tight_layout()
    figure.savefig(target, metadata={"Date": None})


SECTIONS = [
    ("end-to-end", "Writers on one file", "./dev bench end-to-end",
     "Each of K writers runs 4 DELETEs of other rows, all on one file of a million rows: on stock Delta with a retry after "
     "every conflict, with merging, and with a file for each writer in a partition of its own, where nobody conflicts "
     "(the limit). Medians over the rounds."),
    ("storage", "A slow store", "./dev bench storage",
     "One resolution where every call to the storage takes 30 ms; DVs of a side lie in one file, or each in its own. Beside it "
     "the same DVs read one after the other, as code that resolves file by file would."),
    ("scale", "Many files, many winners", "./dev bench scale",
     "One resolution in a heap of 512 MB. A pass holds the deletion vectors that it compares, their union, and the winners' "
     "commits: `maxDvBytes` bounds the first and the last."),
]


def sections_of(path):
    """The sections of an earlier report, by title."""
    text = path.read_text() if path.exists() else ""
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2])))


def main():
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    earlier = sections_of(target / "benchmarks.md")
    parts = ["# Benchmarks", f"Made by `./dev bench report`, last on {machine()}. The machine is shared and noisy: read the "
             "ratios, each of which comes from one run."]

    def section(title, command, made):
        parts.extend([f"## {title}", made or earlier.get(title) or f"Not run: `{command}`."])

    jmh = source / "jmh.md"
    made = None
    if jmh.exists():
        text = jmh.read_text().strip()
        ratios = jmh_ratios(text)
        if ratios:
            plot(ratios, target / "benchmarks.svg")
        made = "\n\n".join(["`./dev bench jmh`. " + text.splitlines()[0] + ".", "![Delta's CPU time divided by ours](benchmarks.svg)",
                            "\n".join(text.splitlines()[1:]).strip(), (target / "benchmarks-notes.md").read_text().strip()])
    section("One file, through JNI", "./dev bench jmh", made)
    rust = source / "rust.txt"
    made = None
    if rust.exists():
        made = ("`./dev bench ratios`: time of the `roaring` crate (decode, and, and_not, or, serialize) divided by ours, "
                "one run.\n\n```\n" + rust.read_text().strip() + "\n```")
    section("The Rust crate alone", "./dev bench ratios", made)
    for name, title, command, text in SECTIONS:
        data = source / f"{name}.json"
        section(title, command,
                f"`{command}`. {text}\n\n{table(json.loads(data.read_text()))}" if data.exists() else None)
    (target / "benchmarks.md").write_text("\n\n".join(parts) + "\n")
    print(f"written to {target / 'benchmarks.md'}")


if __name__ == "__main__":
    main()
