#!/usr/bin/env python3
"""Peer: the most bytes of tensors that live at a time in a training step of PyTorch on the CPU.

Parameters, buffers, momentum and the input, plus what the profiler saw allocated
and freed during one step of SGD: activations, gradients and operators' own
tensors. Scratch of libraries below PyTorch is not in it. The second step, since
the first makes the momentum. Eager, channels last, cross entropy. Prints MiB, for
recompute_time_bench --peer-peak.
"""
import argparse

import torch
import torchvision
from torch.profiler import ProfilerActivity, profile


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--model", default="resnet50")
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--classes", type=int, default=1000)
    return p.parse_args()


def bytes_of(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def peak_of(step):
    """The largest sum of what one call allocates and frees."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
        step()
    events = [e for e in prof.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def main():
    a = arguments()
    torch.manual_seed(0)
    model = getattr(torchvision.models, a.model)(num_classes=a.classes)
    model = model.to(memory_format=torch.channels_last).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(a.batch, 3, a.size, a.size).contiguous(memory_format=torch.channels_last)
    y = torch.randint(0, a.classes, (a.batch,))

    def step():
        opt.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(x), y).backward()
        opt.step()

    step()
    opt.zero_grad(set_to_none=True)
    momentum = [s["momentum_buffer"] for s in opt.state.values()]
    state = bytes_of([*model.parameters(), *model.buffers(), *momentum, x])
    peak = peak_of(step)
    print(f"{a.model} batch {a.batch} size {a.size}: {state / 2**20:.0f} MiB held, {peak / 2**20:.0f} MiB "
          f"in the step, {(state + peak) / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
