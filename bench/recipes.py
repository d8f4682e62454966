#!/usr/bin/env python3
"""What each model reaches on the drawn shapes where no flag says how to train it.

    bench/recipes.py [--models resnet18,mobilenet_v2] [--epochs 3] [--threads 2]

Trains one after the other, and prints a table in Markdown: the recipe as `train`
says it, the accuracy on the images to validate after each epoch, and seconds of training
and evaluation, from outside and of all processors together. --more takes further flags
of train, --more "--batch 64". All models together take hours on a few cores: name
those that you want.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HEADER = ["model", "recipe", "accuracy after each epoch", "seconds", "CPU seconds"]


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--models", help="names with commas between them (default: all)")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--more", default="", help="further flags of train")
    p.add_argument("--train", default=os.path.join(ROOT, "bazel-bin", "apps", "train"))
    return p.parse_args()


def all_models(train):
    """In the order of the program's help, which lists them after the flag."""
    lines = subprocess.run([train, "--help"], capture_output=True, text=True, check=True).stdout.splitlines()
    line = next(line for line in lines if line.lstrip().startswith("--model "))
    return [name.strip() for name in line.split(None, 2)[2].split(",")]


def train_once(a, model, events):
    """The lines that train printed, its wall-clock seconds and those of the processors."""
    command = [a.train, "--model", model, "--epochs", str(a.epochs), "--threads", str(a.threads), "--seed",
               str(a.seed), "--json", events] + a.more.split()
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{sys.argv[0]}: {model}: {done.stderr.strip()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout.splitlines(), time.monotonic() - start, busy


def recipe_in(lines):
    """Two of its lines: "... images, ..., 64x64, batch 32, ..." and "adamw: rate ..."."""
    run = next(line for line in lines if " images, " in line).split(", ")
    sizes = next(part for part in run if part.replace("x", "").isdigit())
    batch = next(part for part in run if part.startswith("batch "))
    optimizer = next(line for line in lines if line.startswith(("sgd: ", "adamw: ")))
    return f"{sizes}, {batch}, {optimizer}"


def row_of(a, model):
    with tempfile.TemporaryDirectory() as folder:
        events = os.path.join(folder, "events")
        lines, seconds, busy = train_once(a, model, events)
        with open(events) as f:
            epochs = [e for e in map(json.loads, f) if e["event"] == "epoch"]
    accuracy = ", ".join(f"{100 * e['val_accuracy']:.1f}%" for e in epochs)
    return [model, recipe_in(lines), accuracy, f"{seconds:.0f}", f"{busy:.0f}"]


def print_row(cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    a = arguments()
    print_row(HEADER)
    print_row(["---"] * len(HEADER))
    for model in a.models.split(",") if a.models else all_models(a.train):
        print_row(row_of(a, model))


if __name__ == "__main__":
    main()
