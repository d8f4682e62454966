#!/usr/bin/env python3
"""How brim's training steps gain by threads, and its loader by workers: a table of speed-ups over one.

    bench/scaling.py [--most N] [--rounds 7]     # makes what it needs; N: the cores of this machine

Each row's programs, one for each number, take turns. Milliseconds are medians; a speed-up is the
median with one over the median with N, in parentheses the least and the greatest of one round.
The loader reads photographs of about 500x375 pixels (make_photos.py, with --python) for training at
224, in workers beside the thread that makes numbers of its bytes.

Nothing else should run meanwhile.
"""
import argparse
import os
import statistics
import subprocess
import sys
from typing import NamedTuple

from turns import HERE, ROOT, Server, built, ratio, step_flags, take_turns


class Step(NamedTuple):
    model: str
    size: int
    batch: int
    steps: int  # of a round

    def name(self):
        return f"{self.model}, {self.size}, batch {self.batch}"

    def start(self, a, n):
        command = [built("bench", "step_server"), *step_flags(self, n)]
        return Server(str(n), command, {"OMP_NUM_THREADS": str(n)})


class Loader(NamedTuple):
    steps: int

    def name(self):
        return "JPEG folder to batches of 64"

    def start(self, a, n):
        command = [built("bench", "loader_bench"), "--data", a.photos, "--workers", str(n)]
        return Server(str(n), command, {"OMP_NUM_THREADS": "1"}, works_ahead=True)


ROWS = [Step("resnet50", 224, 16, 1), Step("mobilenet_v2", 224, 32, 2), Step("resnet18", 64, 64, 4), Loader(8)]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--most", type=int, default=len(os.sched_getaffinity(0)), help="threads and workers")
    p.add_argument("--rows", default="", help="part of the names of the rows to measure")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--photos", metavar="DIR", default=os.path.expanduser("~/.cache/brim/photos"),
                   help="classes of JPEG files, made where it is missing")
    p.add_argument("--python", default=sys.executable, help="one that has numpy and pillow, to make them")
    return p.parse_args()


def measured(a, row):
    """Its line of the table."""
    programs = [row.start(a, n) for n in range(1, a.most + 1)]
    for p in programs:
        p.settle()
    take_turns(programs, a.rounds, row.steps)
    for p in programs:
        p.stop()
    one = programs[0]
    cells = [row.name(), f"{1e3 * statistics.median(one.seconds):.1f}"]
    for p in programs[1:]:
        gain = ratio(one, p)
        cells.append(f"{gain['ratio']:.2f} ({gain['ratio_min']:.2f} to {gain['ratio_max']:.2f})")
    return "| " + " | ".join(cells) + " |"


def main():
    a = arguments()
    rows = [row for row in ROWS if a.rows in row.name()]
    if not rows:
        sys.exit(f"scaling: no row has '{a.rows}' in its name: " + "; ".join(row.name() for row in ROWS))
    subprocess.run(["bazel", "build", "//bench:step_server", "//bench:loader_bench"], check=True, cwd=ROOT)
    if not os.path.exists(a.photos):
        subprocess.run([a.python, os.path.join(HERE, "make_photos.py"), a.photos], check=True)
    head = ["threads or workers", "ms with 1", *(f"speed-up with {n}" for n in range(2, a.most + 1))]
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for row in rows:
        print(measured(a, row), flush=True)


if __name__ == "__main__":
    main()
