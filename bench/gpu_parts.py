#!/usr/bin/env python3
"""The parts of `gpu.sh run`, one after the other: see gpu.sh --help. Not to be called by itself.

A part is a function that gets its deadline and returns what the JSON says of it; `Skipped` and
`Failed` end it with a reason. Nothing that a program does ends the run. What the numbers have to be
is in gpu_bars.py. Python 3.8 and its standard library are enough.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import datetime
import itertools
import json
import os
import re
import statistics
import sys
import tempfile
import time

import gpu_bars
from gpu_machine import (HERE, Failed, MemoryWatch, Skipped, callers_environment, describe_machine, first_line, gpus,
                         our_environment, packed, run_program)

TRAIN = os.path.join(HERE, "bin", "train")
PROBE = os.path.join(HERE, "bin", "gpu_probe")
# Each wants what those before it do.
PROBED = ["properties", "context", "mapping", "kernel", "product", "convolution", "graph"]
BUDGET = 0.9  # of the card

# Seconds that a part of a kind, the first word of its name, may take; gpu.sh --help sums them up.
LIMITS = {"machine": 60, "probe": 240, "smoke": 60, "test": 240, "bytes": 110, "auto": 170, "same": 240, "peer": 240,
          "memcheck": 120, "racecheck": 120}

Case = collections.namedtuple("Case", "name model batch precision")
R256 = Case("resnet50 f16 batch 256", "resnet50", 256, "f16")
R32 = Case("resnet50 f16 batch 32", "resnet50", 32, "f16")
R256_F32 = Case("resnet50 f32 batch 256", "resnet50", 256, "f32")
M256 = Case("mobilenet_v2 f16 batch 256", "mobilenet_v2", 256, "f16")

BYTES = [R256, R32, R256_F32, M256]
# Case, flags of each of brim's contestants, and of PyTorch's. `brim` and `torch` are those of the bar.
PEERS = [
    (R256, {"brim": ["--cudnn-benchmark"], "brim by heuristics": []}, {"torch": []}),
    (R32, {"brim": ["--cudnn-benchmark", "--cuda-graph"], "brim without a graph": ["--cudnn-benchmark"]},
     {"torch": []}),
    (M256, {"brim": ["--cudnn-benchmark"], "brim by heuristics": []}, {"torch": []}),
    (R256_F32, {"brim": ["--cudnn-benchmark", "--tf32"], "brim without tf32": []},
     {"torch": [], "torch without tf32": ["--no-tf32"]}),
]
# Of the card. The largest tensor of a batch that fills it may have more than 2^31 elements.
RECOMPUTED = {"25% of the card": 0.25, "90% of the card": BUDGET}
SAME = [Case("resnet50", "resnet50", 64, "f16"), Case("mobilenet_v2", "mobilenet_v2", 64, "f16")]
SMALLER = 0.6  # of the peak that keeps everything

# What `done` says of a training, where it says it.
KEPT = ["batch", "budget_bytes", "predicted_peak_bytes", "peak_bytes", "predicted_peak_live_bytes", "peak_live_bytes",
        "context_bytes", "context_growth_bytes", "images_per_second", "step_seconds", "budget_violations",
        "mismatches", "oom_events", "skipped_steps", "final_scale", "graph_steps", "why_no_graph"]


def read_events(path):
    try:
        with open(path) as file:
            return [json.loads(line) for line in file if line.strip()]
    except (OSError, ValueError):
        return []


def faults(did):
    """What is wrong with a training, whatever it was for."""
    if did.get("why"):
        return [did["why"]]
    return [text for text, is_wrong in (
        (f"held {did.get('peak_bytes')} bytes and not the predicted {did.get('predicted_peak_bytes')}",
         did.get("peak_bytes") != did.get("predicted_peak_bytes")),
        ("went over its budget", did.get("budget_violations")),
        ("ran out of memory", did.get("oom_events")),
        ("requests were not as planned", did.get("mismatches"))) if is_wrong]


def judged(runs, more=(), **facts):
    """The facts of a part that trained, if nothing is wrong; `more` is what is."""
    wrong = [f"{name}: {text}" for name, did in runs.items() for text in faults(did)] + list(more)
    if wrong:
        raise Failed("; ".join(wrong), runs=runs, **facts)
    return {"runs": runs, **facts}


class Run:
    """What the parts share."""

    def __init__(self, options):
        self.options = options
        self.gpus = gpus()
        self.no_gpu = None  # or why; known after `probe` and `smoke`
        self._torch = None

    def need_gpu(self):
        if self.no_gpu:
            raise Skipped(f"no GPU: {self.no_gpu}")

    def probe(self, step, deadline):
        """A step by itself. Where it fails nothing larger is tried: it runs again, looked at closer."""
        self.need_gpu()
        finished = run_program([PROBE, step], deadline - time.monotonic())
        why = finished.why()
        if why is None:
            return {"said": finished.tail()}
        text = first_line(finished.output)
        if not self.gpus:
            self.no_gpu = f"nvidia-smi names none, and {text if finished.ended else why}"
            self.need_gpu()
        self.no_gpu = f"the step '{step}' of the probe failed: {text if finished.ended else why}"
        closer = {}
        waiting = our_environment(BRIM_CUDA_WAIT="1")
        looks = {"waiting after each op": ((), waiting),
                 "under memcheck": (self.sanitizer("memcheck"), {**waiting, "BRIM_CUDA_MALLOC": "1"})}
        for name, (tool, env) in looks.items():
            if tool is None or time.monotonic() >= deadline:
                closer[name] = "not run"
            else:
                closer[name] = run_program([*tool, PROBE, step], deadline - time.monotonic(), env).tail()
        raise Failed(f"{why}: {text}", output=finished.tail(), closer=closer)

    def smoke(self, deadline):
        self.need_gpu()
        finished = run_program(
            [TRAIN, "--device", "cuda", "--data", "synthetic", "--model", "resnet20", "--size", "32", "--classes", "10",
             "--batch", "4", "--steps", "2", "--quiet"], deadline - time.monotonic())
        why = finished.why()
        if why is None:
            return {}
        text = first_line(finished.output)
        if not self.gpus:
            self.no_gpu = f"nvidia-smi names none, and {text if finished.ended else why}"
            self.need_gpu()
        raise Failed(f"{why}: {text}", output=finished.tail())

    # Tests.

    def test(self, label, deadline, tool=()):
        """A doctest program, in the folder where bazel would run it."""
        self.need_gpu()
        path = label[2:].replace(":", "/")
        root = os.path.join(HERE, "root")
        program = os.path.join(root, path)
        if not os.path.exists(program):
            raise Failed(f"{path} was not packed")
        with tempfile.TemporaryDirectory() as folder:
            env = our_environment(OMP_NUM_THREADS="4", TEST_TMPDIR=folder, BRIM_CACHE_DIR=folder,
                                  **({"BRIM_SKIP_SLOW": "1", "BRIM_CUDA_MALLOC": "1"} if tool else {}))
            finished = run_program([*tool, program], deadline - time.monotonic(), env, root)
        if tool and "Device not supported" in finished.output:
            raise Skipped("compute-sanitizer says: Device not supported")
        facts = {}
        cases = re.search(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed", finished.output)
        if cases:
            facts["test_cases"] = dict(zip(("all", "passed", "failed"), map(int, cases.groups())))
        skips = re.findall(r"skipped: .*", finished.output)
        facts["skips"] = [{"text": text, "count": skips.count(text)} for text in dict.fromkeys(skips)]
        if finished.why():
            raise Failed(finished.why(), output=finished.tail(), ended=finished.ended, **facts)
        return facts

    @staticmethod
    def sanitizer(tool):
        """The command before a program's own; None where the tool is not here."""
        homes = [os.environ[v] for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)] or ["/usr/local/cuda"]
        places = [os.path.join(home, "bin") for home in homes]
        for folder in [*os.environ.get("PATH", "").split(os.pathsep), *places]:
            program = os.path.join(folder, "compute-sanitizer")
            if os.access(program, os.X_OK):
                # Tests provoke errors of the API's calls, and some never call it.
                more = ("--report-api-errors", "no") if tool == "memcheck" else ()
                return (program, "--tool", tool, "--error-exitcode", "86", "--print-limit", "20",
                        "--require-cuda-init", "no", *more)
        return None

    def sanitized(self, tool, label, deadline):
        self.need_gpu()
        command = self.sanitizer(tool)
        if command is None:
            raise Skipped("compute-sanitizer was not found")
        return self.test(label, deadline, command)

    # Trainings.

    def card_bytes(self, share):
        """In whole MiB, since that is what nvidia-smi says."""
        if not self.gpus:
            raise Skipped("nvidia-smi does not say what the card has")
        return int(int(self.gpus[0]["memory.total"]) * share) << 20

    def train(self, case, deadline, *flags, batch=None, steps=None, budget=None, watched=True):
        """What a training did; what went wrong is its `why`. Watched, it may be slower."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "events.json")
            command = [TRAIN, "--device", "cuda", "--data", "synthetic", "--model", case.model, "--size", "224",
                       "--precision", case.precision, "--batch", str(batch or case.batch),
                       "--steps", str(steps or self.options.steps), "--optimizer", "sgd",  # as the peer
                       "--json", path, "--quiet", *flags]
            if budget:
                command += ["--budget", str(budget)]
            env = our_environment(BRIM_CACHE_DIR=folder)
            watch = MemoryWatch() if watched else None
            with watch or contextlib.nullcontext():
                finished = run_program(command, deadline - time.monotonic(), env)
            events = read_events(path)
        named = {event.get("event"): event for event in events}
        losses = [event.get("loss") for event in events if event.get("event") == "step"]
        did = {"command": ["train", *command[1:]], "exit": finished.code, "steps": len(losses), "losses": losses,
               "seconds": round(finished.seconds, 3),
               "planner": flags[flags.index("--planner") + 1] if "--planner" in flags else "arena"}
        did.update({key: named["done"][key] for key in KEPT if key in named.get("done", {})})
        did["remedies"] = named.get("plan", {}).get("remedies")
        if watch:
            did["driver"] = watch.facts()
        if "refused" in named:
            did["refused"] = named["refused"]
        if finished.code == 2 and finished.ended:
            did["why"] = f"does not fit: {first_line(finished.output)}"
        elif finished.why() or "done" not in named:
            did.update(why=finished.why() or "wrote no event `done`", output=finished.tail())
        return did

    def bytes(self, case, deadline):
        self.need_gpu()
        did = self.train(case, deadline, budget=self.card_bytes(BUDGET))
        if did["exit"] == 2:
            raise Skipped(did["why"])
        return judged({"keep": did})

    def auto_free(self, deadline):
        """The largest batch that costs no time, and one image more."""
        self.need_gpu()
        budget = self.card_bytes(BUDGET)
        flags = ["--recompute", "free"]
        largest = self.train(R256, deadline, *flags, batch="auto", steps=6, budget=budget)
        runs = {"batch auto": largest}
        if largest.get("why"):
            return judged(runs)
        more = self.train(R256, deadline, *flags, batch=largest["batch"] + 1, steps=6, budget=budget, watched=False)
        more["batch"] = largest["batch"] + 1
        wrong = [] if gpu_bars.is_refused(more) else [
            f"batch {more['batch']}: {more.get('why', 'was not refused')}, after {more['steps']} steps"]
        return judged(runs, wrong, one_more=more)

    def auto_recompute(self, share, deadline):
        """The largest batch that keeps everything, and that of recomputation, at equal bytes."""
        self.need_gpu()
        budget = self.card_bytes(share)
        return judged({name: self.train(R256, deadline, "--recompute", name, "--offload", "off", batch="auto", steps=3,
                                        budget=budget) for name in ("off", "auto")})

    def same(self, case, deadline):
        """What must not change a loss, each against the run that keeps everything."""
        self.need_gpu()
        off = ["--recompute", "off"]
        base = self.train(case, deadline, *off, "--offload", "off", steps=8)
        runs = {"keep all": base}
        if base.get("why"):
            return judged(runs)
        # A budget holds the context too.
        smaller = int(SMALLER * base.get("peak_bytes", 0)) + (base.get("context_bytes") or 0)
        for name, flags, budget in (
                ("cuda graph", [*off, "--cuda-graph"], None), ("caching", [*off, "--planner", "caching"], None),
                ("direct", [*off, "--planner", "direct"], None),
                ("recompute", ["--recompute", "auto", "--offload", "off"], smaller),
                ("offload", [*off, "--offload", "auto"], smaller)):
            runs[name] = self.train(case, deadline, *flags, steps=8, budget=budget)
        others = {name: gpu_bars.differing(base["losses"], did["losses"]) for name, did in runs.items()
                  if not did.get("why")}
        return judged(runs, [f"{name}: {count} losses differ" for name, count in others.items() if count])

    # PyTorch.

    def has_torch(self, deadline):
        """Nothing, or raises why there is no peer."""
        if self._torch is None:
            finished = run_program([self.options.python, os.path.join(HERE, "torch_gpu_step.py"), "--probe"],
                                   deadline - time.monotonic(), callers_environment())
            self._torch = first_line(finished.output) if finished.why() else ""
        if self._torch:
            raise Skipped(f"no peer: {self._torch}")

    def torch(self, case, deadline, *flags):
        """As `train`."""
        finished = run_program(
            [self.options.python, os.path.join(HERE, "torch_gpu_step.py"), "--model", case.model, "--batch",
             str(case.batch), "--precision", case.precision, "--steps", str(self.options.steps), *flags],
            deadline - time.monotonic(), callers_environment())
        try:
            if finished.why() is None:
                return json.loads(finished.output.strip().splitlines()[-1])
        except (ValueError, IndexError):
            pass
        return {"why": finished.why() or "no numbers", "output": finished.tail()}

    def peer(self, case, ours, theirs, deadline):
        """brim and PyTorch in turns, each run a process that warms up by itself."""
        self.need_gpu()
        self.has_torch(deadline)
        contestants = {name: lambda flags=flags: self.train(case, deadline, *flags, watched=False)
                       for name, flags in ours.items()}
        contestants.update({name: lambda flags=flags: self.torch(case, deadline, *flags)
                            for name, flags in theirs.items()})
        rounds, failed = take_turns(contestants, self.options.rounds, deadline)
        rates = {name: [one["images_per_second"] for one in runs] for name, runs in rounds.items() if runs}
        facts = {"rounds": min((len(each) for each in rates.values()), default=0), "images_per_second": rates,
                 "last": {name: runs[-1] for name, runs in rounds.items() if runs},
                 "times_as_fast": {f"{a} / {b}": compare(rates[a], rates[b])
                                   for a in ours for b in theirs if a in rates and b in rates}}
        if failed:
            raise Failed("; ".join(f"{name}: {one['why']}" for name, one in failed.items()), **facts,
                         contestants_failed={name: one["why"] for name, one in failed.items()},
                         output="\n".join(one.get("output", "") for one in failed.values()))
        return facts


def take_turns(contestants, count, deadline):
    """(runs of each, what failed of whom): who fails is out, and the others go on."""
    rounds, failed, longest = {name: [] for name in contestants}, {}, 0.0
    names = list(contestants)
    for i in range(count):
        begin = time.monotonic()
        if i > 0 and begin + 1.2 * longest > deadline:
            break
        k = i % len(names)
        for name in names[k:] + names[:k]:
            if name in failed:
                continue
            one = contestants[name]()
            if one.get("why"):
                failed[name] = one
            else:
                rounds[name].append(one)
        longest = max(longest, time.monotonic() - begin)
    return rounds, failed


def compare(ours, theirs):
    """Above 1, ours is faster: of the medians, and of each round."""
    each = [a / b for a, b in zip(ours, theirs)]
    return {"median": statistics.median(ours) / statistics.median(theirs), "least": min(each), "greatest": max(each)}


class Part:
    def __init__(self, name, function, beside=False):
        self.name, self.function = name, function
        self.beside = beside  # may run beside others
        self.kind = name.split()[0]

    def is_asked_for(self, only):
        # Others ask these whether there is a GPU, and whether it does anything.
        return not only or self.kind in ("probe", "smoke") or any(
            text == self.kind if text in LIMITS else text in self.name for text in only)


def parts(run, labels):
    """All there are."""
    yield Part("machine", describe_machine)
    for step in PROBED:
        yield Part(f"probe {step}", lambda deadline, step=step: run.probe(step, deadline))
    yield Part("smoke", run.smoke)
    for case in BYTES:
        yield Part(f"bytes {case.name}", lambda deadline, case=case: run.bytes(case, deadline))
    yield Part("auto free", run.auto_free)
    for name, share in RECOMPUTED.items():
        yield Part(f"auto recompute {name}", lambda deadline, share=share: run.auto_recompute(share, deadline))
    for case in SAME:
        yield Part(f"same {case.name}", lambda deadline, case=case: run.same(case, deadline))
    for peer in PEERS:
        yield Part(f"peer {peer[0].name}", lambda deadline, peer=peer: run.peer(*peer, deadline))
    ops = [label for label in labels if label.startswith("//tests/ops")]
    for label in [label for label in labels if label not in ops] + ops:
        yield Part(f"test {label}", lambda deadline, label=label: run.test(label, deadline), beside=label in ops)
    for tool in "memcheck", "racecheck":
        for label in ops:
            yield Part(f"{tool} {label}",
                       lambda deadline, tool=tool, label=label: run.sanitized(tool, label, deadline), beside=True)


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
        cut = time.monotonic() >= last
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
    p.add_argument("--total-limit", type=float, default=float("inf"))
    p.add_argument("--only", action="append", default=[])
    p.add_argument("--after", action="append", default=[])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--jobs", type=int, default=max(1, min(4, (os.cpu_count() or 1) // 4)))
    p.add_argument("--python", default="python3")
    return p.parse_args()


def main():
    options = arguments()
    begin = time.monotonic()
    with open(os.path.join(HERE, "tests.txt")) as file:
        labels = file.read().split()
    run = Run(options)
    every = list(parts(run, labels))
    report = {"what": "brim on a GPU",
              "started": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "packed": packed(), "all_parts": [part.name for part in every], "parts": []}
    if options.after:
        earlier = gpu_bars.read(options.after, report["packed"])
        report["parts"] = [part for part in earlier["parts"] if part["status"] != "skipped" and
                           part["name"].split()[0] not in ("probe", "smoke")]
    before = {part["name"] for part in report["parts"]}
    wanted = [part for part in every if part.is_asked_for(options.only) and part.name not in before]

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
