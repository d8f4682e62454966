#!/usr/bin/env python3
"""Peer: the most bytes of tensors that live at a time in a training step of PyTorch on the CPU.

Parameters, buffers, momentum and the input, plus what the profiler saw allocated
and freed during one step of SGD: activations, gradients and operators' own
tensors, under autocast the copies in bfloat16 too. Scratch of libraries below
PyTorch is not in it. The second step, since the first makes the momentum. Eager,
channels last, cross entropy. Prints MiB, for
recompute_time_bench --peer-peak, and with --masked the size of the file that the model is
saved in, with its masks and after prune.remove.
"""
import argparse
import io

import torch_training
from torch.profiler import ProfilerActivity, profile


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    torch_training.add_arguments(p)
    p.add_argument("--dtype", default="f32", choices=["f32", "bf16"], help="bf16: autocast")
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


def file_bytes(model):
    import torch

    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    return file.getbuffer().nbytes


def print_files(model):
    from torch.nn.utils import prune

    with_masks = file_bytes(model)
    for module, name in torch_training.masked_weights(model):
        prune.remove(module, name)
    print(f"file {with_masks / 2**20:.1f} MiB with masks, {file_bytes(model) / 2**20:.1f} MiB without")


def main():
    a = arguments()
    training = torch_training.Training(a, autocast=a.dtype == "bf16")
    training.step()
    training.optimizer.zero_grad(set_to_none=True)
    momentum = [s["momentum_buffer"] for s in training.optimizer.state.values()]
    model = training.model
    state = bytes_of([*model.parameters(), *model.buffers(), *momentum, training.images])
    peak = peak_of(training.step)
    print(f"{a.model} batch {a.batch} size {a.size} {a.dtype}: {state / 2**20:.0f} MiB held, {peak / 2**20:.0f} MiB "
          f"in the step, {(state + peak) / 2**20:.0f} MiB")
    if a.masked:
        print_files(model)


if __name__ == "__main__":
    main()
