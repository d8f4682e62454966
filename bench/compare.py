#!/usr/bin/env python3
"""brim beside PyTorch: training steps, inference, a training with its data, loading; one table of ratios,
as Markdown and JSON.

    bench/compare.py --cifar DIR         # makes what it needs, then about an hour
    bench/compare.py --rows resnet18     # those whose name has it
    bench/compare.py --list              # their names
    bench/compare.py --rows inference --no-torch --before /tmp/before   # a change against what was

PyTorch and torchvision come from PyPI into a virtual environment of their own
(--venv; or name one that has them with --python). For each row three peers warm
up, eager, torch.compile, and eager with an allocator that keeps its pages
(compare_step.py says why), and take turns with brim, in an order that moves on
from round to round; all of them on --threads threads, in channels last, bf16
rows under autocast. A ratio is the median of theirs over the median of ours:
above 1 brim is faster. In parentheses the least and the greatest of one round.
Bytes are those of tensors that live at a time at the most, of ours with the
scratch of libraries, of theirs without (peers/torch_peak.py); ours over theirs.

With --before brim's program of another build takes turns too: DIR is its bazel-bin,
or a folder that its programs were copied to (step_server, infer_server, train,
loader_bench; they hold all they need). Its column says the median of before over
that of this build: below 1 the change made brim slower, 0.97 by 3%. --no-torch
leaves PyTorch out, and the bytes with it.

Epochs of CIFAR-10, three rounds at most, are those of whole programs, which are
stopped by a signal where it is not their turn; an epoch lasts from its line of
output to the next one's, evaluation included. Photographs are drawn
(make_photos.py) where --photos has none, and loaded in one thread on both sides.

Nothing else should run meanwhile.
"""
import argparse
import json
import os
import platform
import re
import subprocess
import sys

from compare_rows import ROWS
from compare_table import as_markdown
from turns import ROOT, ratio, spread, take_turns


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rows", default="", help="part of the names of the rows to measure")
    p.add_argument("--list", action="store_true", help="print the names of the rows, and end")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--cifar", metavar="DIR", help="CIFAR-10 as train/<class>/*.jpg and val/<class>/*.jpg")
    p.add_argument("--photos", metavar="DIR", default=os.path.expanduser("~/.cache/brim/photos"),
                   help="classes of JPEG files, made where it is missing")
    p.add_argument("--before", metavar="DIR", help="a build of before: its programs take turns with this one's")
    p.add_argument("--no-torch", action="store_true", help="leave PyTorch out; for --before")
    p.add_argument("--python", help="one that has torch and torchvision; nothing is installed")
    p.add_argument("--venv", default=os.path.expanduser("~/.cache/brim/peers"), help="made where it is missing")
    p.add_argument("--out", default="compare", help="NAME: writes NAME.md and NAME.json")
    a = p.parse_args()
    if a.no_torch and not a.before:
        p.error("--no-torch leaves nothing to compare with but --before DIR")
    return a


def python_with_torch(a):
    """The interpreter of the peers; nothing where there are none."""
    if a.no_torch:
        return None
    if a.python:
        return a.python
    python = os.path.join(a.venv, "bin", "python")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", a.venv], check=True)
    if subprocess.run([python, "-c", "import torch, torchvision"], capture_output=True).returncode:
        subprocess.run([python, "-m", "pip", "install", "torch", "torchvision", "numpy"], check=True)
    return python


def versions(python):
    with open("/proc/cpuinfo") as f:
        cpu = re.search(r"model name\s*: (.*)", f.read())
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {"processor": cpu[1] if cpu else platform.processor(), **torch_versions(python),
            "brim": commit.stdout.strip()}


def torch_versions(python):
    if python is None:
        return {}
    code = "import torch, torchvision; print(torch.__version__, torchvision.__version__); print(torch.__config__.show())"
    said = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    torch, torchvision = said.split()[:2]
    library = re.search(r"MKL-DNN v([\d.]+)", said)
    return {"torch": torch, "torchvision": torchvision, "torch's oneDNN": library[1] if library else "none"}


def measure(a, python, row):
    brim, *peers = row.programs(a, python)
    before = [brim.of_build("before", a.before)] if a.before else []
    programs = [brim, *before, *peers]
    for p in programs:
        p.settle()
    take_turns(programs, min(a.rounds, row.most_rounds), row.steps)
    result = {"row": row.name(), "brim": spread(brim.seconds), "bound_seconds": brim.bound(),
              "peak_mib": brim.peak() / 2**20 if row.bytes_bar and python else None, "bytes_bar": row.bytes_bar,
              "peers": {}}
    for p, bar in zip(peers, row.bars):
        result["peers"][p.name] = {**spread(p.seconds), **ratio(p, brim), "bar": bar}
    for p in before:
        result["before"] = {**spread(p.seconds), **ratio(p, brim)}
    result |= row.notes(programs)
    for p in programs:
        p.stop()
    result["torch_peak_mib"] = row.torch_peak(python) if python else None
    return result


def wanted_rows(a):
    rows = [row for row in ROWS if a.rows in row.name()]
    if not rows:
        sys.exit(f"compare: no row has '{a.rows}' in its name: " + "; ".join(row.name() for row in ROWS))
    for row in rows:
        if row.missing(a):
            print(f"compare: skipped: {row.name()}: {row.missing(a)}", file=sys.stderr)
    return [row for row in rows if not row.missing(a)]


def main():
    a = arguments()
    rows = wanted_rows(a)
    if a.list or not rows:
        print("\n".join(row.name() for row in rows))
        return
    targets = sorted({target for row in rows for target in row.targets})
    subprocess.run(["bazel", "build", *targets], check=True, cwd=ROOT)
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
