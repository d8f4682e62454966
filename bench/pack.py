#!/usr/bin/env python3
"""Seconds of the pack program, and how low it packs, over several seeds.

    bench/pack.py [--seeds 20] [--capacity N] [--peer minimalloc] FILE.csv ...
    bench/pack.py --family cut_rectangle --buffers 1000,100000

Prints for each file: buffers, lower bound, the capacity asked for, how many seeds
fit it (all, where none was asked for), median and worst gap to the bound, how many
were proved, and median and worst seconds, those of the whole program from outside.
A capacity is taken from --capacity, or with --named from the file's name
(A.1048576.csv). --family makes files with bazel-bin/bench/make_lifetimes instead.

--peer names a binary of google/minimalloc, which takes its turn after each seed;
it is given --capacity, --input and --output and is asked for the same capacity,
or for the lower bound where there is none.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("files", nargs="*")
    p.add_argument("--seeds", type=int, default=20)
    p.add_argument("--capacity", type=int)
    p.add_argument("--named", action="store_true", help="capacities from the names of the files")
    p.add_argument("--time-limit", type=float)
    p.add_argument("--family", action="append", default=[], help="a generated family; may be repeated")
    p.add_argument("--buffers", default="100,1000,10000,100000", help="of generated problems")
    p.add_argument("--pack", default=os.path.join(ROOT, "bazel-bin", "apps", "pack"))
    p.add_argument("--make", default=os.path.join(ROOT, "bazel-bin", "bench", "make_lifetimes"))
    p.add_argument("--peer", help="minimalloc's binary")
    a = p.parse_args()
    if not a.files and not a.family:
        p.error("expected files or --family")
    return a


def timed(command):
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    return time.monotonic() - start, done


def pack_once(a, path, capacity, seed):
    command = [a.pack, "--json", "-", "--seed", str(seed), path]
    if capacity:
        command += ["--capacity", str(capacity)]
    if a.time_limit:
        command += ["--time-limit", str(a.time_limit)]
    seconds, done = timed(command)
    if done.returncode not in (0, 2):
        sys.exit(f"pack.py: {done.stderr.strip()}")
    return {**json.loads(done.stdout), "wall": seconds, "fits": done.returncode == 0}


def peer_once(a, path, capacity, folder):
    """Seconds of the peer, or None where it finds nothing."""
    output = os.path.join(folder, "peer.csv")
    seconds, done = timed([a.peer, f"--capacity={capacity}", f"--input={path}", f"--output={output}"])
    return seconds if done.returncode == 0 else None


def median_and_worst(values, form):
    return f"{statistics.median(values):{form}}{max(values):{form}}"


def measure(a, name, path, capacity, folder):
    runs, peers = [], []
    for seed in range(a.seeds):
        runs.append(pack_once(a, path, capacity, seed))
        if a.peer:
            peers.append(peer_once(a, path, capacity or runs[-1]["lower_bound"], folder))
    text = f"{name[-28:]:28} {runs[0]['buffers']:7} {runs[0]['lower_bound']:13} {capacity or '-':>13}"
    text += f" {sum(r['fits'] for r in runs):3}/{len(runs):<3}" + median_and_worst([100 * r["gap"] for r in runs], "9.3f")
    text += f" {sum(r['proved'] for r in runs):3}/{len(runs):<3}" + median_and_worst([r["wall"] for r in runs], "8.3f")
    if a.peer:
        found = [p for p in peers if p is not None]
        text += median_and_worst(found, "8.3f") if found else f"{'none':>16}"
    print(text, flush=True)


def capacity_of(a, path):
    if not a.named:
        return a.capacity
    return int(os.path.basename(path).split(".")[-2])


def main():
    a = arguments()
    head = f"{'':28} {'buffers':>7} {'bound':>13} {'capacity':>13}  fits  gap % med    worst proved    s med   worst"
    print(head + ("   peer s   worst" if a.peer else ""))
    with tempfile.TemporaryDirectory() as folder:
        for path in a.files:
            measure(a, os.path.basename(path), path, capacity_of(a, path), folder)
        for family in a.family:
            for buffers in a.buffers.split(","):
                path = os.path.join(folder, f"{family}.{buffers}.csv")
                with open(path, "w") as f:
                    if subprocess.run([a.make, family, buffers, "1"], stdout=f).returncode:
                        sys.exit(1)
                measure(a, os.path.basename(path), path, a.capacity, folder)


if __name__ == "__main__":
    main()
