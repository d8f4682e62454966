#!/usr/bin/env python3
"""Peer: training steps of a torchvision model, or ResNet-20, in PyTorch, timed on request.

The protocol is that of bench/step_server, so that a driver can let the two take
turns: prints `ready` when warm; then, for each line `step N` on standard input,
runs N steps and answers with one line of N numbers, the seconds of each. `quit`
or the end of the input ends it. Waiting costs nothing: the process sleeps in
read, and its OpenMP threads sleep too after some milliseconds.

Without --serve it runs --warmup and --steps steps and prints one summary line.

A step is zero_grad, forward, cross entropy, backward and SGD (momentum 0.9,
weight decay 1e-4), eager, channels last, as in a plain training loop.
"""
import argparse
import os
import statistics
import sys
import time

import torch_training


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    torch_training.add_arguments(p)
    p.add_argument("--dtype", default="f32", choices=["f32", "bf16"], help="bf16: autocast")
    p.add_argument("--layout", default="nhwc", choices=["nhwc", "nchw"])
    p.add_argument("--compile", action="store_true", help="torch.compile instead of eager")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--warmup", type=int, default=2)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--serve", action="store_true", help="answer `step N` lines")
    return p.parse_args()


def make_step(a):
    """A function that runs one training step."""
    import torch

    torch.set_num_threads(a.threads)
    return torch_training.Training(a, channels_last=a.layout == "nhwc", weight_decay=1e-4,
                                   autocast=a.dtype == "bf16", compiled=a.compile).step


def timed(step, count):
    seconds = []
    for _ in range(count):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    return seconds


def serve(step):
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if not words:
            continue
        if words == ["quit"]:
            return
        if len(words) != 2 or words[0] != "step" or not words[1].isdigit():
            print(f"torch_step: expected `step N` or `quit`, got `{line.strip()}`", file=sys.stderr)
            sys.exit(1)
        print(" ".join(f"{s:.6f}" for s in timed(step, int(words[1]))), flush=True)


def main():
    a = arguments()
    # Before torch is imported, which starts OpenMP.
    os.environ.setdefault("OMP_NUM_THREADS", str(a.threads))
    step = make_step(a)
    timed(step, a.warmup)
    if a.serve:
        serve(step)
        return
    seconds = timed(step, a.steps)
    median = statistics.median(seconds)
    print(f"{a.model} batch {a.batch} size {a.size} {a.dtype} {a.layout}{' compiled' if a.compile else ''}: "
          f"{median * 1e3:.1f} ms a step (min {min(seconds) * 1e3:.1f}, max {max(seconds) * 1e3:.1f}), "
          f"{a.batch / median:.2f} images/s")


if __name__ == "__main__":
    main()
