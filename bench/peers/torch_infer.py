#!/usr/bin/env python3
"""Peer: inference of a torchvision model, or ResNet-20, in PyTorch, timed on request.

The protocol is that of peers/torch_step.py: with --serve it prints `ready` when warm
and answers `step N` with the seconds of N forward passes. Without it runs --warmup and
--steps passes and prints one summary line.

A pass is the model in eval mode and torch.inference_mode on one batch of random images,
channels last, with batch norms folded into convolutions by torch.fx. --compile compiles
the folded model; --freeze lets the compiler take its weights for constants, which packs
them once.
"""
import argparse
import os
import statistics

import torch_step
import torch_training


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--model", default="resnet50")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--classes", type=int, default=1000)
    p.add_argument("--dtype", default="f32", choices=["f32", "bf16"], help="bf16: the model in bfloat16")
    p.add_argument("--no-fold", action="store_true", help="batch norms as they are")
    p.add_argument("--compile", action="store_true", help="torch.compile instead of eager")
    p.add_argument("--freeze", action="store_true", help="with --compile: weights are constants")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--serve", action="store_true", help="answer `step N` lines")
    return p.parse_args()


def make_step(a):
    """A function that runs one forward pass."""
    import torch
    from torch.fx.experimental.optimization import fuse

    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    dtype = torch.bfloat16 if a.dtype == "bf16" else torch.float32
    model = torch_training.make_model(a.model, a.classes).eval()
    if not a.no_fold:
        model = fuse(model)
    model = model.to(dtype=dtype, memory_format=torch.channels_last)
    images = torch.randn(a.batch, 3, a.size, a.size).to(dtype=dtype, memory_format=torch.channels_last)
    if a.compile:
        if a.freeze:
            import torch._inductor.config

            torch._inductor.config.freezing = True
        model = torch.compile(model)

    def step():
        with torch.inference_mode():
            return model(images)

    return step


def main():
    a = arguments()
    # Before torch is imported, which starts OpenMP.
    os.environ.setdefault("OMP_NUM_THREADS", str(a.threads))
    step = make_step(a)
    torch_step.timed(step, a.warmup)
    if a.serve:
        torch_step.serve(step)
        return
    seconds = torch_step.timed(step, a.steps)
    median = statistics.median(seconds)
    how = (" compiled" if a.compile else "") + (" frozen" if a.freeze else "") + (" not folded" if a.no_fold else "")
    print(f"{a.model} batch {a.batch} size {a.size} {a.dtype}{how}: {median * 1e3:.2f} ms a pass "
          f"(min {min(seconds) * 1e3:.2f}, max {max(seconds) * 1e3:.2f}), {a.batch / median:.2f} images/s")


if __name__ == "__main__":
    main()
