#!/usr/bin/env python3
"""brim's training steps beside PyTorch's: one table of ratios, as Markdown and JSON.

    bench/compare.py                     # makes what it needs, then 20 to 40 minutes
    bench/compare.py --rows resnet18     # those whose name has it

PyTorch and torchvision come from PyPI into a virtual environment of their own
(--venv; or name one that has them with --python). For each row three peers warm
up, eager, torch.compile, and eager with an allocator that keeps its pages
(compare_step.py says why), and take turns with brim, in an order that moves on
from round to round; all of them on --threads threads, in channels last, bf16
rows under autocast. A ratio is the median of theirs over the median of ours:
above 1 brim is faster. In parentheses the least and the greatest of one round.
Bytes are those of tensors that live at a time at the most, of ours with the
scratch of libraries, of theirs without (peers/torch_peak.py); ours over theirs.

Nothing else should run meanwhile.
"""
import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from typing import NamedTuple

from compare_step import HERE, TUNED, Server

ROOT = os.path.dirname(HERE)


class Row(NamedTuple):
    model: str
    size: int
    batch: int
    dtype: str
    steps: int  # a round
    bars: tuple  # eager, compiled, tuned
    bytes_bar: float

    def name(self):
        return f"{self.model}, {self.size}, batch {self.batch}, {self.dtype}"


ROWS = [
    Row("resnet50", 224, 16, "f32", 1, (1.5, 1.25, 1.3), 0.75),
    Row("resnet50", 224, 16, "bf16", 1, (1.4, 1.15, 1.2), 0.75),
    Row("mobilenet_v2", 224, 32, "f32", 1, (3.5, 2.0, 2.0), 0.55),
    Row("mobilenet_v2", 224, 32, "bf16", 1, (3.0, 1.8, 1.7), 0.55),
    Row("resnet18", 64, 64, "f32", 4, (1.4, 1.15, 1.3), 0.75),
    Row("resnet18", 64, 1, "f32", 30, (3.0, 1.5, 3.0), 0.75),
]
PEERS = ("torch", "torch compiled", "torch tuned")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", default="", help="part of the names of the rows to measure")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--python", help="one that has torch and torchvision; nothing is installed")
    p.add_argument("--venv", default=os.path.expanduser("~/.cache/brim/peers"), help="made where it is missing")
    p.add_argument("--out", default="compare", help="NAME: writes NAME.md and NAME.json")
    return p.parse_args()


def python_with_torch(a):
    if a.python:
        return a.python
    python = os.path.join(a.venv, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", a.venv], check=True)
    if subprocess.run([python, "-c", "import torch, torchvision"], capture_output=True).returncode:
        subprocess.run([python, "-m", "pip", "install", "torch", "torchvision", "numpy"], check=True)
    return python


def versions(python):
    code = "import torch, torchvision; print(torch.__version__, torchvision.__version__); print(torch.__config__.show())"
    said = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    torch, torchvision = said.split()[:2]
    library = re.search(r"MKL-DNN v([\d.]+)", said)
    with open("/proc/cpuinfo") as f:
        cpu = re.search(r"model name\s*: (.*)", f.read())
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {"processor": cpu[1] if cpu else platform.processor(), "torch": torch, "torchvision": torchvision,
            "torch's oneDNN": library[1] if library else "none", "brim": commit.stdout.strip()}


def torch_peak(python, row):
    """MiB, or nothing: torch_peak.py runs no autocast."""
    if row.dtype != "f32":
        return None
    said = subprocess.run([python, os.path.join(HERE, "peers", "torch_peak.py"), "--model", row.model, "--batch",
                           str(row.batch), "--size", str(row.size)], check=True, capture_output=True, text=True).stdout
    return float(re.findall(r"([\d.]+) MiB", said)[-1])


def start(a, python, row):
    common = ["--model", row.model, "--batch", str(row.batch), "--size", str(row.size), "--dtype", row.dtype,
              "--threads", str(a.threads)]
    env = {"OMP_NUM_THREADS": str(a.threads)}
    torch = [python, os.path.join(HERE, "peers", "torch_step.py"), "--serve", *common]
    brim = os.path.join(ROOT, "bazel-bin", "bench", "step_server")
    return [Server("brim", [brim, *common], env), Server(PEERS[0], torch, env),
            Server(PEERS[1], [*torch, "--compile"], env), Server(PEERS[2], torch, {**env, **TUNED})]


def measure(a, python, row):
    servers = start(a, python, row)
    for s in servers:
        s.round(1, keep=False)
    for i in range(a.rounds):
        k = i % len(servers)
        turn = servers[k:] + servers[:k]
        for s in turn if i % 2 == 0 else reversed(turn):
            s.round(row.steps)
    brim = servers[0]
    result = {"row": row.name(), "brim": spread(brim.seconds), "peak_mib": brim.peak() / 2**20, "peers": {}}
    for s, bar in zip(servers[1:], row.bars):
        each = [theirs / ours for ours, theirs in zip(brim.medians, s.medians)]
        result["peers"][s.name] = {**spread(s.seconds), "bar": bar, "ratio_min": min(each), "ratio_max": max(each),
                                   "ratio": statistics.median(s.seconds) / statistics.median(brim.seconds)}
    for s in servers:
        s.stop()
    result["torch_peak_mib"], result["bytes_bar"] = torch_peak(python, row), row.bytes_bar
    return result


def spread(seconds):
    return {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds), "seconds": seconds}


def as_markdown(a, machine, results):
    lines = [", ".join(f"{name} {value}" for name, value in machine.items()) +
             f"; {a.threads} threads, {a.rounds} rounds. Ratios of times: theirs over ours; of bytes: ours over theirs.",
             "", "| row | brim ms | eager | compiled | eager, tuned | bytes |", "| --- | --- | --- | --- | --- | --- |"]
    for r in results:
        cells = [r["row"], f"{1e3 * r['brim']['median']:.1f}"]
        for name in PEERS:
            p = r["peers"][name]
            met = "" if p["ratio"] >= p["bar"] else f", wanted {p['bar']}"
            cells.append(f"{p['ratio']:.2f} ({p['ratio_min']:.2f} to {p['ratio_max']:.2f}{met})")
        if r["torch_peak_mib"]:
            share = r["peak_mib"] / r["torch_peak_mib"]
            cells.append(f"{r['peak_mib']:.0f} / {r['torch_peak_mib']:.0f} MiB, {share:.2f}" +
                         ("" if share <= r["bytes_bar"] else f", wanted {r['bytes_bar']}"))
        else:
            cells.append(f"{r['peak_mib']:.0f} MiB")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main():
    a = arguments()
    rows = [row for row in ROWS if a.rows in row.name()]
    if not rows:
        sys.exit(f"compare: no row has '{a.rows}' in its name: " + "; ".join(row.name() for row in ROWS))
    subprocess.run(["bazel", "build", "//bench:step_server"], check=True, cwd=ROOT)
    python = python_with_torch(a)
    machine, results = versions(python), []
    for row in rows:
        print(f"compare: {row.name()}", file=sys.stderr, flush=True)
        results.append(measure(a, python, row))
        # What is measured is kept, whatever comes after it.
        with open(a.out + ".json", "w") as f:
            json.dump({"machine": machine, "threads": a.threads, "rounds": a.rounds, "rows": results}, f)
            f.write("\n")
        with open(a.out + ".md", "w") as f:
            f.write(as_markdown(a, machine, results))
    print(as_markdown(a, machine, results), end="")


if __name__ == "__main__":
    main()
