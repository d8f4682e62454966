#!/usr/bin/env python3
"""The parts of `gpu.sh run`, and in which order: see gpu.sh --help. Not to be called by itself.

Python 3.8 and its standard library are enough.
"""
import argparse
import concurrent.futures
import datetime
import itertools
import os
import re
import sys
import time

import gpu_bars
from gpu_machine import Failed, Skipped, describe_machine, first_line, packed, run_program
from gpu_parts import AGREE, BUDGET, TESTS, Case, Run

# Each wants what those before it do.
PROBED = ["properties", "context", "mapping", "kernel", "product", "convolution", "graph"]

# Seconds that a part of a kind, the first word of its name, may take: gpu.sh --help.
LIMITS = {"machine": 30, "probe": 60, "test": 60, "agree": 60, "bytes": 60, "peer": 100, "auto": 100, "same": 150,
          "counters": 60, "memcheck": 90, "racecheck": 90, "initcheck": 90, "synccheck": 90}
SECONDS = {"first": 480, "second": float("inf"), "all": float("inf")}  # of a list

R256 = Case("resnet50 f16 batch 256", "resnet50", 256, "f16")
R32 = Case("resnet50 f16 batch 32", "resnet50", 32, "f16")
R256_F32 = Case("resnet50 f32 batch 256", "resnet50", 256, "f32")
M256 = Case("mobilenet_v2 f16 batch 256", "mobilenet_v2", 256, "f16")
BYTES = {"first": [R32, R256], "second": [R256_F32, M256]}
# Case, flags of each of brim's contestants, and of PyTorch's. `brim` and `torch` are those of the bar.
PEERS = {"first": [
    (R256, {"brim": ["--cudnn-benchmark"], "brim by heuristics": []}, {"torch": []}),
    (M256, {"brim": ["--cudnn-benchmark"], "brim by heuristics": []}, {"torch": []})], "second": [
    (R32, {"brim": ["--cudnn-benchmark", "--cuda-graph"], "brim without a graph": ["--cudnn-benchmark"]},
     {"torch": []}),
    (R256_F32, {"brim": ["--cudnn-benchmark", "--tf32"], "brim without tf32": []},
     {"torch": [], "torch without tf32": ["--no-tf32"]})]}
# Of the card. The largest tensor of a batch that fills it may have more than 2^31 elements.
RECOMPUTED = {"25% of the card": 0.25, "90% of the card": BUDGET}
SAME = [Case("resnet50", "resnet50", 64, "f16"), Case("mobilenet_v2", "mobilenet_v2", 64, "f16")]

# What everything else stands on; the ops come after them, the rest in the second list.
LOW = ("tests/base/", "tests/core/", "tests/memory/")
OPS = "tests/ops/"
SLOWEST = "batch norm and depthwise"  # of brim's own kernels: what most reads and writes hang on
SLOWEST_CASES = [f"--source-file=*{OPS}*", "--test-case=batch_norm*,*batch norm*,*depthwise*"]


class Part:
    def __init__(self, name, function, beside=False):
        self.name, self.function = name, function
        self.beside = beside  # may run beside others
        self.kind = name.split()[0]

    def is_asked_for(self, only):
        # Others ask these whether there is a GPU, and whether it does anything.
        return not only or self.kind == "probe" or any(
            text == self.kind if text in LIMITS else text in self.name for text in only)


def files_of_tests():
    """(the source files whose cases the test program has, tests/ops/abs_test.cc; why there are none)"""
    finished = run_program([TESTS, "--list-test-cases", "--reporters=xml"], 60)
    files = sorted(set(re.findall(r'filename="([^"]+)"', finished.output)))
    return files, None if files else f"{os.path.basename(TESTS)}: {finished.why() or first_line(finished.output)}"


def no_tests(why):
    """A part that says so, in place of the tests."""
    raise Failed(why)


def test_part(run, file, tool=None):
    """The cases of a file, by themselves or under a tool of compute-sanitizer."""
    filters = [f"--source-file=*{file}"]
    return Part(f"{tool or 'test'} {file}",
                (lambda deadline: run.sanitized(tool, filters, deadline)) if tool else
                (lambda deadline: run.test(filters, deadline)), beside=file.startswith(OPS))


def probing_parts(run, why_no_tests):
    """What both lists begin with."""
    yield Part("machine", describe_machine)
    for step in PROBED:
        yield Part(f"probe {step}", lambda deadline, step=step: run.probe(step, deadline))
    if why_no_tests:
        yield Part("test list", lambda deadline: no_tests(why_no_tests))


def first_parts(run, files):
    """For eight minutes with a card that nobody knows: what fails early is told first."""
    for file in [file for file in files if file.startswith(LOW)] + [file for file in files if file.startswith(OPS)]:
        yield test_part(run, file)
    yield Part(f"agree {AGREE.name}", run.agree)
    for case in BYTES["first"]:
        yield Part(f"bytes {case.name}", lambda deadline, case=case: run.bytes(case, deadline))
    for peer in PEERS["first"]:
        yield Part(f"peer {peer[0].name}", lambda deadline, peer=peer: run.peer(*peer, deadline))
    yield Part("auto free", lambda deadline: run.auto_free(R256, deadline))
    for tool in "racecheck", "memcheck":
        yield Part(f"{tool} {SLOWEST}", lambda deadline, tool=tool: run.sanitized(tool, SLOWEST_CASES, deadline))
    yield Part("counters", run.counters)


def second_parts(run, files):
    """For a second time: the first list has to have passed."""
    for file in [file for file in files if not file.startswith((*LOW, OPS))]:
        yield test_part(run, file)
    for case in BYTES["second"]:
        yield Part(f"bytes {case.name}", lambda deadline, case=case: run.bytes(case, deadline))
    for name, share in RECOMPUTED.items():
        yield Part(f"auto recompute {name}", lambda deadline, share=share: run.auto_recompute(R256, share, deadline))
    for case in SAME:
        yield Part(f"same {case.name}", lambda deadline, case=case: run.same(case, deadline))
    for peer in PEERS["second"]:
        yield Part(f"peer {peer[0].name}", lambda deadline, peer=peer: run.peer(*peer, deadline))
    for tool in "memcheck", "racecheck", "initcheck", "synccheck":
        for file in [file for file in files if file.startswith(OPS)]:
            yield test_part(run, file, tool)


def do_part(part, options, last):
    """Its entry in the JSON."""
    entry = {"name": part.name}
    begin = time.monotonic()
    try:
        if begin >= last:
            raise Skipped("the total limit was reached before it")
        limit = options.limit or LIMITS[part.kind]
        entry.update(status="passed", **part.function(min(begin + limit, last)))
    except Skipped as why:
        entry.update(status="skipped", why=str(why))
    except Failed as why:
        # What else went wrong before the limit came is a failure all the same.
        cut = time.monotonic() >= last and all("did not end within its limit" in text for text in str(why).split("; "))
        entry.update(status="skipped" if cut else "failed",
                     why="the total limit was reached in it" if cut else str(why), **why.facts)
    except Exception as error:  # a mistake here must not cost the other parts
        entry.update(status="failed", why=f"{type(error).__name__}: {error}")
    entry["seconds"] = round(time.monotonic() - begin, 3)
    return entry


def do_parts(wanted, options, last):
    """Their entries in order, as they come; those that may run beside others do."""
    for beside, group in itertools.groupby(wanted, lambda part: part.beside):
        with concurrent.futures.ThreadPoolExecutor(options.jobs if beside else 1) as pool:
            yield from pool.map(lambda part: do_part(part, options, last), group)


def arguments():
    p = argparse.ArgumentParser(prog="gpu.sh run", description="See gpu.sh --help.")
    p.add_argument("out")
    p.add_argument("--limit", type=float)
    p.add_argument("--total-limit", type=float)
    p.add_argument("--list", choices=SECONDS)
    p.add_argument("--only", action="append", default=[])
    p.add_argument("--after", action="append", default=[])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--jobs", type=int, default=max(1, min(4, (os.cpu_count() or 1) // 4)))
    p.add_argument("--python", default="python3")
    options = p.parse_args()
    options.list = options.list or ("all" if options.only else "first")
    if options.total_limit is None:
        options.total_limit = SECONDS[options.list]
    return options


def main():
    options = arguments()
    begin = time.monotonic()
    run = Run(options)
    files, why_none = files_of_tests()
    probing = list(probing_parts(run, why_none))
    first, second = list(first_parts(run, files)), list(second_parts(run, files))
    every = probing + first + second
    listed = probing + {"first": first, "second": second, "all": first + second}[options.list]
    report = {"what": "brim on a GPU",
              "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "packed": packed(), "all_parts": [part.name for part in every], "parts": []}
    if options.after:
        earlier = gpu_bars.read(options.after, report["packed"])
        report["parts"] = [part for part in earlier["parts"] if part["status"] != "skipped" and
                           part["name"].split()[0] != "probe"]
    before = {part["name"] for part in report["parts"]}
    wanted = [part for part in listed if part.is_asked_for(options.only) and part.name not in before]

    def keep():
        report.update(counts=gpu_bars.counts(report["parts"]), seconds=round(time.monotonic() - begin, 3))
        try:
            report["bars"] = gpu_bars.bars(report)
        except Exception as error:  # `bars` can be asked again, what was measured cannot
            report.update(bars=[], bars_failed=f"{type(error).__name__}: {error}")
        gpu_bars.write(options.out, report)

    keep()
    for entry in do_parts(wanted, options, begin + options.total_limit):
        if run.gpus:
            entry["gpu"] = run.gpus[0]["name"]
        report["parts"].append(entry)
        keep()
        print(f"{entry['status']:8} {entry['name']}  {entry['seconds']:.1f} s  {entry.get('why', '')}".rstrip(),
              flush=True)
    print("\n".join(["", *gpu_bars.table(report["bars"]), report.get("bars_failed", "")]))
    counts = report["counts"]
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped: {options.out}")
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
