#!/usr/bin/env python3
"""Trains with --batch auto in control groups of little memory, and says who survived.

    bench/containers.py [--train PROGRAM] [--limits 256MiB,1GiB] [--models resnet18:224,...] [--ulimit]

For each limit and model a line: how it ended, the batch, the predicted peak, what the group held at
most beside it, and both together as a share of the limit. Nothing may be killed; from 1 GiB up
ResNet-18 at 224 pixels trains, with a share of at least 80%. Exit code 1 where that is not so.

Groups are made below the one of this script (cgroup v1 or v2), which takes the right to; with
--ulimit, and where that right is missing, the limit is one of addresses (`ulimit -v`) instead, and
what the process holds beside the prediction is by its own account.
"""
import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
MODELS = "resnet18:224,mobilenet_v2:224,resnet50:128,resnet20:32"
LEAST_SHARE, SHARE_FROM = 0.8, 1 << 30


def bytes_of(text):
    return int(text[:-3]) * UNITS[text[-3:]]


def mib(count):
    return f"{count / (1 << 20):.0f} MiB"


class Group:
    """A control group with a limit, for one process."""

    FILES = {  # limit, most that was used
        "v1": ("memory.limit_in_bytes", "memory.max_usage_in_bytes"),
        "v2": ("memory.max", "memory.peak"),
    }

    def __init__(self, limit):
        self.kind, parent = self.own()
        self.folder = parent / f"brim_{os.getpid()}_{limit}"
        self.folder.mkdir()
        self.limit_file, self.peak_file = self.FILES[self.kind]
        try:
            (self.folder / self.limit_file).write_text(str(limit))
            swap = self.folder / "memory.swap.max"
            if swap.exists():
                swap.write_text("0")
        except OSError:
            self.folder.rmdir()
            raise

    @staticmethod
    def own():
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "memory":
                return "v1", pathlib.Path("/sys/fs/cgroup/memory" + path)
        path = line.split(":", 2)[2]
        return "v2", pathlib.Path("/sys/fs/cgroup" + path)

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        return int((self.folder / self.peak_file).read_text())

    def close(self):
        self.folder.rmdir()


class AddressLimit:
    def __init__(self, limit):
        self.limit = limit

    def enter(self):
        resource.setrlimit(resource.RLIMIT_AS, (self.limit, self.limit))

    def peak(self):
        return None

    def close(self):
        pass


def made(limit, by_ulimit):
    if not by_ulimit:
        try:
            return Group(limit)
        except OSError as error:
            print(f"no control group can be made ({error}): ulimit -v", file=sys.stderr)
    return AddressLimit(limit)


def run(train, model, size, bound, steps):
    command = [train, "--data", "synthetic", "--model", model, "--size", size, "--batch", "auto",
               "--steps", str(steps), "--op-times", "nominal", "--json", "-"]
    result = subprocess.run(command, preexec_fn=bound.enter, capture_output=True, text=True)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    return result.returncode, {event["event"]: event for event in events}, result.stderr.strip()


def report(limit, model, size, bound, outcome):
    """Prints the line; whether it is as it must be."""
    code, events, error = outcome
    head = f"{mib(limit):>9}  {model + ' at ' + size:<20}"
    if code == 2:
        print(f"{head}  refused: {error}")
        return not (model == "resnet18" and limit >= SHARE_FROM)
    if code != 0 or "done" not in events:
        print(f"{head}  {'KILLED' if code < 0 else 'FAILED'} ({code}) {error}")
        return False
    predicted = events["plan"]["predicted_peak_bytes"]
    peak = bound.peak()
    if peak is None:
        peak = predicted + events["plan"]["process_bytes"]
    share = peak / limit
    print(f"{head}  trained, batch {events['done']['batch']:>4}, predicted {mib(predicted):>8}, "
          f"beside it {mib(peak - predicted):>7}, {share:.0%} of the limit")
    return not (model == "resnet18" and limit >= SHARE_FROM and share < LEAST_SHARE)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--train", default="bazel-bin/apps/train")
    parser.add_argument("--limits", default="256MiB,512MiB,1GiB,2GiB,4GiB")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--ulimit", action="store_true")
    args = parser.parse_args()
    good = True
    for limit in map(bytes_of, args.limits.split(",")):
        for model, size in (name.split(":") for name in args.models.split(",")):
            bound = made(limit, args.ulimit)
            try:
                good &= report(limit, model, size, bound,
                               run(args.train, model, size, bound, args.steps))
            finally:
                bound.close()
            sys.stdout.flush()
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
