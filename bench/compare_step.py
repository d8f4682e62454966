#!/usr/bin/env python3
"""Seconds of a training step, brim against PyTorch or an earlier brim, taking turns in one run.

    bazel build //bench:step_server
    bench/compare_step.py --model resnet50 --batch 16 --python VENV/bin/python

Starts bazel-bin/bench/step_server and peers/torch_step.py, stock and, with
--tuned, once more with an allocator that keeps its pages; all of them warm up,
then each round lets every program run --steps steps while the others sleep. The
order turns from round to round, so that a slow moment of the machine hits all.
Prints median, least and greatest seconds of each, and the ratio of the medians
brim / peer with the least and greatest ratio of one round. --json FILE keeps
every number.

The tuned peer: by default PyTorch's big buffers come fresh from the system at
each step and are faulted in anew; glibc can be told to keep them (TUNED in turns.py).
--no-brim measures the peers alone.

Against an earlier brim: build the step_server of that commit in a checkout of
its own, and name it with --before; --no-torch leaves PyTorch out.

    git worktree add ../before COMMIT
    (cd ../before && bazel build //bench:step_server)
    bench/compare_step.py --model resnet50 --no-torch \\
        --before ../before/bazel-bin/bench/step_server
    git worktree remove --force ../before

Both get the same --model, --batch, --size, --threads and --dtype; --brim-args go to this
one alone. OpenMP's threads wait as they do by default in all of them: they look out for
work for some milliseconds and sleep then. With --passive they sleep at once, which costs
more where a step is many short loops, and is kinder to what else runs. In the row
`before`, a ratio below 1 says that this build is faster.

A pruned model against the whole one, and PyTorch with as many weights masked:

    bench/compare_step.py --model resnet50 --brim-args "--weights half.safetensors" \\
        --before bazel-bin/bench/step_server --masked 0.5 --python VENV/bin/python

--dtype bf16 measures mixed precision, PyTorch's autocast in channels last as its
peer, and one row more, `brim f32`: what this build's float32 step takes.
"""
import argparse
import json
import shlex
import sys

from turns import TUNED, Server, built, peer, ratio, spread, step_flags, take_turns


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default="resnet50")
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--size", type=int, default=224)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--dtype", default="f32", choices=["f32", "bf16"])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=3, help="steps a round")
    p.add_argument("--brim", default=built("bench", "step_server"),
                   help="step_server of this build, where it is elsewhere")
    p.add_argument("--brim-args", default="", help="more arguments for it, in one string")
    p.add_argument("--no-brim", action="store_true", help="the peers alone")
    p.add_argument("--before", metavar="STEP_SERVER", help="that of an earlier build, as a peer: see above")
    p.add_argument("--python", default=sys.executable, help="python that has torch and torchvision")
    p.add_argument("--no-torch", action="store_true", help="without the stock peer")
    p.add_argument("--tuned", action="store_true", help="also PyTorch with a tuned allocator")
    p.add_argument("--compiled", action="store_true", help="also torch.compile (tuned, if --tuned)")
    p.add_argument("--masked", type=float, metavar="SHARE",
                   help="also PyTorch with so many weights masked (torch.nn.utils.prune)")
    p.add_argument("--passive", action="store_true", help="OMP_WAIT_POLICY=passive for all")
    p.add_argument("--json", help="file for all numbers")
    return p.parse_args()


def start(a):
    """The programs to compare, brim first. One warms up at a time."""
    env = {"OMP_NUM_THREADS": str(a.threads), **({"OMP_WAIT_POLICY": "passive"} if a.passive else {})}
    common, dtype = step_flags(a, a.threads), ["--dtype", a.dtype]
    torch = [*peer(a.python, "torch_step.py"), "--serve", *common, *dtype]
    wanted = []
    if not a.no_brim:
        wanted.append(("brim", [a.brim, *common, *shlex.split(a.brim_args), *dtype], env))
        if a.dtype != "f32":
            wanted.append(("brim f32", [a.brim, *common, *shlex.split(a.brim_args)], env))
    if a.before:
        # One of before there was --dtype has float32 alone.
        wanted.append(("before", [a.before, *common, *(dtype if a.dtype != "f32" else [])], env))
    if not a.no_torch:
        wanted.append(("torch", torch, env))
    if a.masked:
        wanted.append(("torch masked", [*torch, "--masked", str(a.masked)], env))
    if a.tuned:
        wanted.append(("torch tuned", torch, {**env, **TUNED}))
    if a.compiled:
        wanted.append(("torch compiled", [*torch, "--compile"], {**env, **(TUNED if a.tuned else {})}))
    return [Server(*w) for w in wanted]


def report(a, servers):
    print(f"{a.model} batch {a.batch} size {a.size} {a.dtype}, {a.threads} threads, {a.rounds} rounds of {a.steps} steps")
    print(f"{'':16}{'median s':>10}{'min':>10}{'max':>10}{'images/s':>10}   brim / peer (rounds)")
    ours = servers[0] if servers[0].name == "brim" else None
    rows = {}
    for s in servers:
        row = spread(s.seconds)
        text = f"{s.name:16}{row['median']:10.4f}{row['min']:10.4f}{row['max']:10.4f}{a.batch / row['median']:10.2f}"
        if ours and s is not ours:
            row |= ratio(ours, s)
            text += f"   {row['ratio']:.3f} ({row['ratio_min']:.3f} to {row['ratio_max']:.3f})"
        print(text, flush=True)
        rows[s.name] = row
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"model": a.model, "batch": a.batch, "size": a.size, "dtype": a.dtype, "threads": a.threads,
                       "rounds": a.rounds, "steps": a.steps, "programs": rows}, f)
            f.write("\n")


def main():
    a = arguments()
    servers = start(a)
    if not servers:
        sys.exit("compare_step: nothing to measure")
    for s in servers:
        s.settle()
    take_turns(servers, a.rounds, a.steps)
    for s in servers:
        s.stop()
    report(a, servers)


if __name__ == "__main__":
    main()
