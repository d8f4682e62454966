#!/usr/bin/env python3
"""The numbers of two dozen small trainings, to the last bit: the same before and after code was moved?

    bench/pins.py record before.json                     # with bazel-bin/apps/train
    bench/pins.py record after.json --train apps/train   # another program
    bench/pins.py compare before.json after.json [--but identity]

record trains models in several precisions, with recomputation, offload, pruning, accumulation,
other planners and a training that goes on from a checkpoint, some updates each, a minute or
two in all. Of each run it keeps the exit code, every loss, scale and peak, what was refused and
offered, and of plans the identity and a hash of all offsets; nothing that a clock said. Numbers
are of one processor and its libraries: compare what was recorded on the same machine.

compare ends with 0 where all is the same, else with 1 and what is not.
"""
import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
# Of an event, what a clock or the machine's free memory said.
TIMED = {"images_per_second", "step_seconds", "trace_seconds", "pack_seconds", "available_bytes", "process_bytes",
         "context_bytes", "context_growth_bytes"}

SMALL = "--model resnet20 --size 32 --classes 10"
SYNTHETIC = f"--data synthetic {SMALL} --steps 6"
R18 = "--data synthetic --model resnet18 --size 64 --classes 10 --batch 32 --steps 4"
MOBILE = "--data synthetic --model mobilenet_v2 --size 64 --classes 10 --batch 8 --steps 4"
DENSE = "--data synthetic --model densenet121 --size 64 --classes 10 --batch 8 --steps 3"
R50 = "--data synthetic --model resnet50 --size 64 --classes 10 --batch 16 --steps 3"
# DATA is a folder of CIFAR's binary files, FILE one of the run's own; a run is one command after another.
RUNS = {
    "resnet20": [f"{SYNTHETIC} --batch 8"],
    "resnet20 caching": [f"{SYNTHETIC} --batch 8 --planner caching"],
    "resnet20 direct": [f"{SYNTHETIC} --batch 8 --planner direct"],
    "resnet20 keeps all": [f"{SYNTHETIC} --batch 8 --recompute off --no-in-place"],
    "resnet20 replayed, averaged": [f"{SYNTHETIC} --batch 8 --replay --ema 0.9 --optimizer adamw"],
    "resnet20 fused update": [f"{SYNTHETIC} --batch 8 --fused-update"],
    "resnet20 accumulated": [f"{SYNTHETIC} --batch 8 --effective-batch 20"],
    "resnet20 three parts": [f"{SYNTHETIC} --effective-batch 24 --micro-batches 3 --clip-norm 1"],
    "resnet20 batch auto": [f"{SYNTHETIC} --batch auto --max-batch 200 --budget 20MiB"],
    "resnet20 batch auto, recomputed": [f"{SYNTHETIC} --batch auto --max-batch 200 --budget 20MiB --recompute auto"],
    "resnet20 precision auto": [f"{SYNTHETIC} --batch 32 --budget 16MiB --precision auto"],
    "resnet20 refused": [f"{SYNTHETIC} --batch 64 --budget 8MiB"],
    "resnet20 halves": [f"{SYNTHETIC} --batch 8 --precision bf16 --parameters bf16 --gradients bf16 "
                        "--optimizer-state bf16"],
    "resnet20 CIFAR, evaluated": [f"--data DATA {SMALL} --batch 16 --epochs 2 --mixup 0.2 --label-smoothing 0.1 "
                                  "--color-jitter 0.1,0.1,0.1,0.1 --random-erasing 0.2"],
    "resnet20 CIFAR, resumed": [f"--data DATA {SMALL} --batch 16 --steps {steps} --checkpoint FILE "
                                "--resume --schedule constant" for steps in (7, 13)],
    "resnet20 a kept plan": [f"{SYNTHETIC} --batch 8 --save-plan FILE", f"{SYNTHETIC} --batch 8 --plan FILE"],
    "resnet20 pruned": [f"--data DATA {SMALL} --batch 16 --steps 12 --budget 1GiB --prune-to flops=0.6 "
                        "--prune-start 2 --prune-every 3"],
    "resnet18 within a budget": [f"{R18} --budget 148MiB"],
    "resnet18 segments": [f"{R18} --recompute segments=4"],
    "resnet18 offloaded": [f"{R18} --budget 155MiB --recompute off --offload auto"],
    "resnet50 bf16": [f"{R50} --precision bf16"],
    "resnet50 recomputed, offloaded": [f"{R50} --budget 390MiB --recompute auto --offload auto"],
    "mobilenet_v2 f16": [f"{MOBILE} --precision f16"],
    "densenet121 recomputed": [f"{DENSE} --budget 120MiB"],
}


def make_data(folder):
    """CIFAR-10's binary files with few images of noise."""
    noise = random.Random(0)
    for name, images in [(f"data_batch_{i}.bin", 14) for i in range(1, 6)] + [("test_batch.bin", 20)]:
        with open(os.path.join(folder, name), "wb") as file:
            for i in range(images):
                file.write(bytes([i % 10]) + noise.randbytes(3072))
    with open(os.path.join(folder, "batches.meta.txt"), "w") as file:
        file.write("".join(f"class{i}\n" for i in range(10)))


def read_events(path):
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [{key: value for key, value in json.loads(line).items() if key not in TIMED} for line in file]


def read_plan(path):
    """The question that a plan answers, and a hash of its offsets and of the buffers that they are for; nothing
    where none was kept. Where in the sources a buffer was asked for does not count: that is what moves."""
    if not os.path.exists(path):
        return None
    with open(path) as file:
        plan, trace = (json.loads(line) for line in file.read().splitlines()[:2])
    identity = plan.pop("identity", "")
    kept = {"plan": {key: value for key, value in plan.items() if key not in ("sites", "checksum")},
            "buffers": [buffer[:2] + buffer[3:] for buffer in trace["buffers"]], "sections": trace["sections"]}
    text = json.dumps(kept, sort_keys=True)
    return {"identity": identity, "hash": hashlib.sha256(text.encode()).hexdigest()}


def do_run(train, commands, data, threads):
    """What each of the commands did."""
    done = []
    with tempfile.TemporaryDirectory() as folder:
        for i, command in enumerate(commands):
            events, plan = (os.path.join(folder, f"{name}{i}") for name in ("events", "plan"))
            words = command.replace("DATA", data).replace("FILE", os.path.join(folder, "file")).split()
            if "--save-plan" in words:
                plan = os.path.join(folder, "file")
            elif "--planner" not in words and "--plan" not in words:
                words += ["--save-plan", plan]
            finished = subprocess.run(
                [train, *words, "--json", events, "--op-times", "nominal", "--threads", str(threads), "--seed", "3",
                 "--quiet"], capture_output=True, text=True,
                env={**os.environ, "BRIM_CACHE_DIR": folder, "OMP_NUM_THREADS": str(threads)})
            said = finished.stderr.replace(folder, "").replace(data, "").splitlines()[:1]
            done.append({"exit": finished.returncode, "said": said if finished.returncode == 1 else [],
                         "events": read_events(events), "plan": read_plan(plan)})
    return done


def record(a):
    runs = {}
    with tempfile.TemporaryDirectory() as data:
        make_data(data)
        for name, commands in RUNS.items():
            if a.runs not in name:
                continue
            runs[name] = do_run(os.path.abspath(a.train), commands, data, a.threads)
            last = runs[name][-1]
            steps = [event["loss"] for event in last["events"] if event.get("event") == "step"]
            print(f"{name}: exit {last['exit']}, {len(steps)} updates, last loss {steps[-1] if steps else None}"
                  f"{''.join(': ' + line for line in last['said'])}", flush=True)
    with open(a.out, "w") as file:
        json.dump(runs, file, indent=1)


def differences(before, after, where):
    """A line for each place where two of these differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), f"{where}, {key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for i, pair in enumerate(zip(before, after)):
            yield from differences(*pair, f"{where}, {i + 1}")
    elif before != after:
        yield f"{where}: {before!r} was, {after!r} is"


def compare(a):
    with open(a.before) as before, open(a.after) as after:
        found = [line for line in differences(json.load(before), json.load(after), "")
                 if not any(line.split(":")[0].endswith(", " + key) for key in a.but)]
    for line in found[:50]:
        print(line[2:][:400])
    print(f"{len(found)} differences")
    return 1 if found else 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True)
    r = commands.add_parser("record", help="train, and keep the numbers")
    r.add_argument("out", metavar="OUT.json")
    r.add_argument("--train", default=os.path.join(ROOT, "bazel-bin", "apps", "train"))
    r.add_argument("--threads", type=int, default=2)
    r.add_argument("--runs", default="", help="those that have this in their name")
    r.set_defaults(do=record)
    c = commands.add_parser("compare", help="what differs between two records")
    c.add_argument("before")
    c.add_argument("after")
    c.add_argument("--but", action="append", default=[], metavar="KEY", help="may differ; may be repeated")
    c.set_defaults(do=compare)
    a = p.parse_args()
    sys.exit(a.do(a))


if __name__ == "__main__":
    main()
