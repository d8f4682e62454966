#!/usr/bin/env python3
"""What the parts of `gpu.sh run` do: see gpu.sh --help. Not to be called by itself.

A part is a method that gets its deadline and returns what the JSON says of it; `Skipped` and
`Failed` end it with a reason. Nothing that a program does ends the run. Which parts there are is
in gpu_run.py, what the numbers have to be in gpu_bars.py. Python 3.8 and its standard library are enough.
"""
import collections
import contextlib
import csv
import json
import os
import re
import statistics
import tempfile
import time

import gpu_bars
from gpu_machine import (HERE, Failed, MemoryWatch, Skipped, callers_environment, find_tool, first_line, gpus,
                         our_environment, run_program)

ROOT = os.path.join(HERE, "root")  # where the tests find what they read
BIN = os.path.join(HERE, "bin")
TRAIN, PROBE, TESTS = (os.path.join(BIN, name) for name in ("train", "gpu_probe", "gpu_tests"))
BUDGET = 0.9  # of the card

Case = collections.namedtuple("Case", "name model batch precision")
# Two builds of the CPU with other libraries, whose sums have another order, are 1e-7 apart in the first loss
# and 7e-5 at most in the next four; bfloat16 is 4e-3 and up to 1e-1. At larger rates the differences grow
# with each update until they say nothing.
AGREE = Case("resnet50 f32 batch 8", "resnet50", 8, "f32")
AGREE_RATE, AGREE_FIRST, AGREE_LATER = "0.000003", 1e-5, 1e-3
SMALLER = 0.6  # of the peak that keeps everything

# What `done` says of a training, where it says it.
KEPT = ["batch", "budget_bytes", "predicted_peak_bytes", "peak_bytes", "predicted_peak_live_bytes", "peak_live_bytes",
        "context_bytes", "context_growth_bytes", "images_per_second", "step_seconds", "budget_violations",
        "mismatches", "oom_events", "skipped_steps", "final_scale", "graph_steps", "why_no_graph"]

# Of a kernel, as ncu names them.
COUNTERS = ["gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum",
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
            "sm__warps_active.avg.pct_of_peak_sustained_active",
            "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio", "launch__registers_per_thread"]


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
        self.no_gpu = None  # or why; known after `probe`
        self._torch = None
        # What one training has timed, the next need not time again.
        self._cache = tempfile.TemporaryDirectory()

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

    # Tests.

    def test(self, filters, deadline, tool=()):
        """Cases of the test program, in the folder where bazel would run it."""
        self.need_gpu()
        with tempfile.TemporaryDirectory() as folder:
            env = our_environment(OMP_NUM_THREADS="4", TEST_TMPDIR=folder, BRIM_CACHE_DIR=folder,
                                  **({"BRIM_SKIP_SLOW": "1", "BRIM_CUDA_MALLOC": "1"} if tool else {}))
            finished = run_program([*tool, TESTS, *filters], deadline - time.monotonic(), env, ROOT)
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
        if not facts.get("test_cases", {}).get("all"):
            raise Failed("no test case was run", output=finished.tail(), **facts)
        return facts

    @staticmethod
    def sanitizer(tool):
        """The command before a program's own; None where the tool is not here."""
        program = find_tool("compute-sanitizer")
        if program is None:
            return None
        # Tests provoke errors of the API's calls, and some never call it.
        more = ("--report-api-errors", "no") if tool == "memcheck" else ()
        return (program, "--tool", tool, "--error-exitcode", "86", "--print-limit", "20", "--require-cuda-init", "no",
                *more)

    def sanitized(self, tool, filters, deadline):
        self.need_gpu()
        command = self.sanitizer(tool)
        if command is None:
            raise Skipped("compute-sanitizer was not found")
        return self.test(filters, deadline, command)

    # Trainings.

    def card_bytes(self, share):
        """In whole MiB, since that is what nvidia-smi says."""
        if not self.gpus:
            raise Skipped("nvidia-smi does not say what the card has")
        return int(int(self.gpus[0]["memory.total"]) * share) << 20

    def train(self, case, deadline, *flags, batch=None, steps=None, budget=None, watched=True, device="cuda"):
        """What a training did; what went wrong is its `why`. Watched, it may be slower."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "events.json")
            command = [TRAIN, "--device", device, "--data", "synthetic", "--model", case.model, "--size", "224",
                       "--precision", case.precision, "--batch", str(batch or case.batch),
                       "--steps", str(steps or self.options.steps), "--optimizer", "sgd",  # as the peer
                       "--json", path, "--quiet", *flags]
            if budget:
                command += ["--budget", str(budget)]
            env = our_environment(BRIM_CACHE_DIR=self._cache.name)
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

    def agree(self, deadline):
        """Five steps on the GPU and on the CPU, from the same weights and pixels."""
        self.need_gpu()
        runs = {device: self.train(AGREE, deadline, "--recompute", "off", "--lr", AGREE_RATE, steps=5, watched=False,
                                   device=device) for device in ("cuda", "cpu")}
        if any(did.get("why") for did in runs.values()):
            return judged(runs)
        apart = gpu_bars.relative_differences(runs["cuda"]["losses"], runs["cpu"]["losses"])
        most = [AGREE_FIRST] + [AGREE_LATER] * 4
        wrong = [f"the loss of step {i + 1} is {one:.2g} apart, and {limit:g} at most was expected"
                 for i, (one, limit) in enumerate(zip(apart, most)) if not one <= limit]
        if len(apart) != len(most):
            wrong.append(f"{len(apart)} losses instead of {len(most)}")
        return judged(runs, wrong, apart=apart)

    def bytes(self, case, deadline):
        self.need_gpu()
        did = self.train(case, deadline, budget=self.card_bytes(BUDGET))
        if did["exit"] == 2:
            raise Skipped(did["why"])
        return judged({"keep": did})

    def auto_free(self, case, deadline):
        """The largest batch that costs no time, and one image more."""
        self.need_gpu()
        budget = self.card_bytes(BUDGET)
        flags = ["--recompute", "free"]
        largest = self.train(case, deadline, *flags, batch="auto", steps=6, budget=budget)
        runs = {"batch auto": largest}
        if largest.get("why"):
            return judged(runs)
        more = self.train(case, deadline, *flags, batch=largest["batch"] + 1, steps=6, budget=budget, watched=False)
        more["batch"] = largest["batch"] + 1
        wrong = [] if gpu_bars.is_refused(more) else [
            f"batch {more['batch']}: {more.get('why', 'was not refused')}, after {more['steps']} steps"]
        return judged(runs, wrong, one_more=more)

    def auto_recompute(self, case, share, deadline):
        """The largest batch that keeps everything, and that of recomputation, at equal bytes."""
        self.need_gpu()
        budget = self.card_bytes(share)
        return judged({name: self.train(case, deadline, "--recompute", name, "--offload", "off", batch="auto", steps=3,
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

    def counters(self, deadline):
        """What the card counts of the kernels of batch norm and depthwise convolution, of each the mean."""
        self.need_gpu()
        ncu = find_tool("ncu")
        if ncu is None:
            raise Skipped("ncu was not found")
        with tempfile.TemporaryDirectory() as folder:
            command = [ncu, "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(COUNTERS),
                       "--kernel-name-base", "mangled", "--kernel-name", "regex:batch_norm|depthwise",
                       "--launch-count", "120", TRAIN, "--device", "cuda", "--data", "synthetic", "--model",
                       "mobilenet_v2", "--size", "224", "--precision", "f16", "--batch", "64", "--steps", "1",
                       "--quiet"]
            finished = run_program(command, deadline - time.monotonic(), our_environment(BRIM_CACHE_DIR=folder))
        if finished.why():
            raise Failed(f"{finished.why()}: {first_line(finished.output)}", output=finished.tail())
        return {"kernels": mean_counters(finished.output)}

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


def mean_counters(text):
    """Of ncu's table: for each kernel its launches, and the mean of each counter."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    found = {}
    for row in csv.DictReader(lines[begin:]):
        numbers = {}
        for name in COUNTERS:
            with contextlib.suppress(TypeError, ValueError):
                numbers[name] = float((row.get(name) or "").replace(",", ""))
        if numbers:  # the second line has the units
            found.setdefault(row.get("Kernel Name"), []).append(numbers)
    if not found:
        raise Failed("ncu listed no kernel", output=text[-2000:])
    return {kernel: {"launches": len(each), **{name: statistics.mean([one[name] for one in each if name in one])
                                               for name in COUNTERS if any(name in one for one in each)}}
            for kernel, each in found.items()}
