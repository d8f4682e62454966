#!/usr/bin/env python3
"""The parts of `gpu.sh run`, one after the other: see gpu.sh --help. Not to be called by itself.

A part is a function that gets its deadline and returns what the JSON says of it; `Skipped` and
`Failed` end it with a reason. Nothing that a program does ends the run. Python 3.8 and its standard
library are enough.
"""
import argparse
import datetime
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TRAIN = os.path.join(HERE, "bin", "train")
KEPT_OUTPUT = 4000  # characters of what a failed program printed

# name, flags of `train`; batch 0: the largest that fits
CASES = [
    ("resnet50 f16 batch 256", "resnet50", 256, "f16"),
    ("resnet50 f16 batch 32", "resnet50", 32, "f16"),
    ("resnet50 f32 batch 256", "resnet50", 256, "f32"),
    ("resnet50 f32 batch 32", "resnet50", 32, "f32"),
    ("mobilenet_v2 f16 batch 256", "mobilenet_v2", 256, "f16"),
    ("resnet50 f16 batch auto", "resnet50", 0, "f16"),
]
BUDGET = 0.9  # of the card


class Skipped(Exception):
    pass


class Failed(Exception):
    """`facts` stay in the part."""

    def __init__(self, why, **facts):
        super().__init__(why)
        self.facts = facts


class Finished:
    def __init__(self, code, output, seconds, ended):
        self.code, self.output, self.seconds, self.ended = code, output, seconds, ended

    def why(self):
        """Why it counts as failed; None where it does not."""
        if not self.ended:
            return f"did not end within its limit ({self.seconds:.0f} s)"
        if self.code < 0:
            return f"ended by signal {signal.Signals(-self.code).name}"
        return f"exit code {self.code}" if self.code else None

    def tail(self):
        return self.output[-KEPT_OUTPUT:]


def our_environment(**more):
    """Of brim's programs: with the libraries that gpu.sh found."""
    return {**os.environ, "LD_LIBRARY_PATH": os.environ.get("BRIM_LIBRARY_PATH", ""), **more}


def callers_environment():
    """Of others: PyTorch brings libraries of its own."""
    path = os.environ.get("BRIM_CALLERS_LIBRARY_PATH", "")
    rest = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    return {**rest, "LD_LIBRARY_PATH": path} if path else rest


def run_program(command, limit, env=None, cwd=None):
    """Runs it with its children in a group, which is gone when this returns."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       env=our_environment() if env is None else env, cwd=cwd,
                                       start_new_session=True)
        except OSError as error:
            return Finished(127, f"{command[0]}: {error.strerror}", 0, True)
        ended = True
        try:
            process.wait(max(limit, 0.01))
        except subprocess.TimeoutExpired:
            ended = False
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Finished(process.returncode, text, time.monotonic() - start, ended)


def first_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "it said nothing"


# What the machine is.

SMI_FIELDS = ["name", "driver_version", "memory.total", "memory.used", "compute_cap", "clocks.max.sm",
              "clocks.max.memory", "power.limit", "pci.bus_id"]


def smi(*arguments, limit=60):
    """What nvidia-smi says, or None."""
    finished = run_program(["nvidia-smi", *arguments], limit, callers_environment())
    return None if finished.why() else finished.output


def gpus():
    """A dict of SMI_FIELDS for each GPU; none where there is no nvidia-smi."""
    text = smi(f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader,nounits")
    rows = [[field.strip() for field in line.split(",")] for line in (text or "").splitlines()]
    return [dict(zip(SMI_FIELDS, row)) for row in rows if len(row) == len(SMI_FIELDS)]


def used_mib():
    """Of the first GPU, by everybody; None where nobody says."""
    text = smi("--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0", limit=10)
    try:
        return int(first_line(text or ""))
    except ValueError:
        return None


VERSIONS = r"""
import ctypes, json
def version(file, function, by_pointer=False):
    try:
        call = getattr(ctypes.CDLL(file), function)
        if by_pointer:
            number = ctypes.c_int()
            call(ctypes.byref(number))
            return number.value
        call.restype = ctypes.c_size_t
        return call()
    except (OSError, AttributeError):
        return None
found = {"cuda_of_driver": version("libcuda.so.1", "cuDriverGetVersion", True),
         "cudnn": version("libcudnn.so.9", "cudnnGetVersion")}
for major in "13", "12":
    found["cublaslt"] = found.get("cublaslt") or version("libcublasLt.so." + major, "cublasLtGetVersion")
print(json.dumps(found))
"""


def library_versions():
    finished = run_program([sys.executable, "-c", VERSIONS], 60)
    try:
        return json.loads(finished.output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {"why": finished.why() or first_line(finished.output)}


def packed():
    """What `pack` wrote down of itself."""
    with open(os.path.join(HERE, "packed.txt")) as file:
        return dict(line.rstrip("\n").split(" ", 1) for line in file if " " in line)


def describe_machine(_deadline):
    facts = {"gpus": gpus(), **library_versions(), "library_path": os.environ.get("BRIM_LIBRARY_PATH", ""),
             "packed": packed() if os.path.exists(os.path.join(HERE, "packed.txt")) else None,
             "libc": os.confstr("CS_GNU_LIBC_VERSION"), "cores": os.cpu_count()}
    header = smi() or ""
    cuda = re.search(r"CUDA Version: *([0-9.]+)", header)
    return {**facts, "cuda": cuda.group(1) if cuda else None}


class Run:
    """What the parts share."""

    def __init__(self, options):
        self.options = options
        self.gpus = gpus()
        self.no_gpu = None  # or why; known after `smoke`
        self._torch = None

    def need_gpu(self):
        if self.no_gpu:
            raise Skipped(f"no GPU: {self.no_gpu}")

    def smoke(self, deadline):
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
                                  **({"BRIM_SKIP_SLOW": "1"} if tool else {}))
            finished = run_program([*tool, program], deadline - time.monotonic(), env, root)
        facts = {}
        cases = re.search(r"test cases:\s*(\d+) \|\s*(\d+) passed \|\s*(\d+) failed", finished.output)
        if cases:
            facts["test_cases"] = dict(zip(("all", "passed", "failed"), map(int, cases.groups())))
        skips = re.findall(r"skipped: .*", finished.output)
        facts["skips"] = [{"text": text, "count": skips.count(text)} for text in dict.fromkeys(skips)]
        if finished.why():
            raise Failed(finished.why(), output=finished.tail(), **facts)
        return facts

    def sanitized(self, tool, label, deadline):
        self.need_gpu()
        homes = [os.environ[v] for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)] or ["/usr/local/cuda"]
        places = [os.path.join(home, "bin") for home in homes]
        for folder in [*os.environ.get("PATH", "").split(os.pathsep), *places]:
            program = os.path.join(folder, "compute-sanitizer")
            if os.access(program, os.X_OK):
                # Tests provoke errors of the API's calls, and some never call it.
                more = ("--report-api-errors", "no") if tool == "memcheck" else ()
                return self.test(label, deadline, (program, "--tool", tool, "--error-exitcode", "86", "--print-limit",
                                                   "20", "--require-cuda-init", "no", *more))
        raise Skipped("compute-sanitizer was not found")

    # Trainings.

    def train_once(self, case, limit, watch=None):
        """The last event of `train` and the events by name."""
        _, model, batch, precision = case
        total = int(self.gpus[0]["memory.total"]) if self.gpus else 0
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "events.json")
            command = [TRAIN, "--device", "cuda", "--data", "synthetic", "--model", model, "--size", "224",
                       "--precision", precision, "--batch", str(batch) if batch else "auto",
                       "--steps", str(self.options.steps), "--json", path, "--quiet"]
            if total:
                command += ["--budget", f"{int(total * BUDGET)}MiB"]
            if watch:
                watch.start()
            finished = run_program(command, limit, our_environment(BRIM_CACHE_DIR=folder))
            if watch:
                watch.stop()
            try:
                with open(path) as file:
                    events = [json.loads(line) for line in file if line.strip()]
            except (OSError, ValueError):
                events = []
        facts = {"command": [os.path.basename(TRAIN), *command[1:]]}
        named = {event.get("event"): event for event in events}
        if finished.code == 2 and finished.ended:
            raise Skipped(f"does not fit: {first_line(finished.output)}")
        if finished.why() or "done" not in named:
            raise Failed(finished.why() or "wrote no event `done`", output=finished.tail(), **facts)
        return named, facts

    def train(self, case, deadline):
        self.need_gpu()
        watch = MemoryWatch()
        named, facts = self.train_once(case, deadline - time.monotonic(), watch)
        done = named["done"]
        for key in ("batch", "budget_bytes", "predicted_peak_bytes", "peak_bytes", "predicted_peak_live_bytes",
                    "peak_live_bytes", "images_per_second", "step_seconds", "budget_violations", "mismatches",
                    "oom_events", "skipped_steps", "final_scale"):
            facts[key] = done.get(key)
        facts["remedies"] = named.get("plan", {}).get("remedies")
        facts["nvidia_smi"] = watch.facts()
        wrong = [text for text, is_wrong in (
            (f"held {done.get('peak_bytes')} bytes and not the predicted {done.get('predicted_peak_bytes')}",
             done.get("peak_bytes") != done.get("predicted_peak_bytes")),
            ("went over its budget", done.get("budget_violations")),
            ("requests were not as planned", done.get("mismatches"))) if is_wrong]
        if wrong:
            raise Failed("; ".join(wrong), **facts)
        return facts

    def has_torch(self):
        """Nothing, or raises why there is no peer."""
        if self._torch is None:
            finished = run_program([self.options.python, os.path.join(HERE, "torch_gpu_step.py"), "--probe"], 120,
                                   callers_environment())
            self._torch = first_line(finished.output) if finished.why() else ""
        if self._torch:
            raise Skipped(f"no peer: {self._torch}")

    def torch_once(self, case, limit, *more):
        _, model, batch, precision = case
        finished = run_program(
            [self.options.python, os.path.join(HERE, "torch_gpu_step.py"), "--model", model, "--batch", str(batch),
             "--precision", precision, "--steps", str(self.options.steps), *more], limit, callers_environment())
        try:
            if finished.why() is None:
                return json.loads(finished.output.strip().splitlines()[-1])
        except (ValueError, IndexError):
            pass
        raise Failed(f"PyTorch: {finished.why() or 'no numbers'}", output=finished.tail())

    def peer(self, case, deadline):
        """brim and PyTorch in turns, each run a process that warms up by itself."""
        self.need_gpu()
        self.has_torch()
        contestants = {"brim": lambda left: self.train_once(case, left)[0]["done"],
                       "torch": lambda left: self.torch_once(case, left)}
        if case[3] == "f32":  # brim's float32 is not rounded
            contestants["torch without tf32"] = lambda left: self.torch_once(case, left, "--no-tf32")
        rounds = {name: [] for name in contestants}
        longest = 0.0
        for i in range(self.options.rounds):
            begin = time.monotonic()
            if i > 0 and begin + 1.2 * longest > deadline:
                break
            names = list(contestants)
            k = i % len(names)
            for name in names[k:] + names[:k]:
                rounds[name].append(contestants[name](deadline - time.monotonic()))
            longest = max(longest, time.monotonic() - begin)
        rates = {name: [one["images_per_second"] for one in runs] for name, runs in rounds.items()}
        facts = {"rounds": len(rates["brim"]), "images_per_second": rates, "torch": rounds["torch"][-1],
                 "ratio_of_seconds": {}}
        for name in list(contestants)[1:]:
            each = [theirs / ours for ours, theirs in zip(rates["brim"], rates[name])]
            # As compare_step.py: below 1, brim is faster.
            facts["ratio_of_seconds"]["brim / " + name] = {
                "median": statistics.median(rates[name]) / statistics.median(rates["brim"]),
                "least": min(each), "greatest": max(each)}
        return facts


class MemoryWatch:
    """Asks nvidia-smi again and again: in a run of its own, so that it disturbs none that is timed."""

    def start(self):
        self.before, self.peak, self.asked = used_mib(), None, 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self):
        while not self.done.wait(0.1):
            used = used_mib()
            self.asked += 1
            if used is not None:
                self.peak = max(used, self.peak or 0)

    def stop(self):
        self.done.set()
        self.thread.join()

    def facts(self):
        return {"used_mib_before": self.before, "used_mib_at_most": self.peak, "asked": self.asked}


def parts(run, labels):
    """(name, function of the deadline), those that take longest last."""
    yield "machine", describe_machine
    yield "smoke", run.smoke
    for label in labels:
        yield f"test {label}", lambda deadline, label=label: run.test(label, deadline)
    for case in CASES:
        yield f"train {case[0]}", lambda deadline, case=case: run.train(case, deadline)
        if case[2]:
            yield f"peer {case[0]}", lambda deadline, case=case: run.peer(case, deadline)
    for tool in "memcheck", "racecheck":
        for label in labels:
            if label.startswith("//tests/ops"):
                yield (f"{tool} {label}",
                       lambda deadline, tool=tool, label=label: run.sanitized(tool, label, deadline))


def do_part(name, function, limit, last):
    """Its entry in the JSON."""
    part = {"name": name}
    begin = time.monotonic()
    try:
        if begin >= last:
            raise Skipped("the total limit was reached before it")
        part.update(status="passed", **function(min(begin + limit, last)))
    except Skipped as why:
        part.update(status="skipped", why=str(why))
    except Failed as why:
        part.update(status="failed", why=str(why), **why.facts)
    except Exception as error:  # a mistake here must not cost the other parts
        part.update(status="failed", why=f"{type(error).__name__}: {error}")
    part["seconds"] = round(time.monotonic() - begin, 3)
    return part


def write(path, report):
    """Whole or not at all."""
    with open(path + ".part", "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def arguments():
    p = argparse.ArgumentParser(prog="gpu.sh run", description="See gpu.sh --help.")
    p.add_argument("out")
    p.add_argument("--limit", type=float, default=480)
    p.add_argument("--total-limit", type=float, default=float("inf"))
    p.add_argument("--only", action="append", default=[])
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--python", default="python3")
    return p.parse_args()


def main():
    options = arguments()
    with open(os.path.join(HERE, "tests.txt")) as file:
        labels = file.read().split()
    begin = time.monotonic()
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    report = {"what": "brim on a GPU", "started": started, "parts": [],
              "counts": {"passed": 0, "failed": 0, "skipped": 0}, "seconds": 0}
    run = Run(options)
    write(options.out, report)
    for name, function in parts(run, labels):
        # Others ask `smoke` whether there is a GPU.
        if options.only and name != "smoke" and not any(only in name for only in options.only):
            continue
        part = do_part(name, function, options.limit, begin + options.total_limit)
        report["parts"].append(part)
        report["counts"][part["status"]] += 1
        report["seconds"] = round(time.monotonic() - begin, 3)
        write(options.out, report)
        print(f"{part['status']:8} {name}  {part['seconds']:.1f} s  {part.get('why', '')}".rstrip(), flush=True)
    counts = report["counts"]
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped: {options.out}")
    sys.exit(1 if counts["failed"] else 0)


if __name__ == "__main__":
    main()
