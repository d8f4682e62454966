#!/usr/bin/env python3
"""Golden values of optimizers, made with PyTorch: parameters after 25 updates.

    python make_golden.py

needs torch, torchvision and numpy, and writes golden.json beside itself; the
tests need only that file, which is kept.

Parameters and gradients are numbers that a key and an index give, s(key, i) of
tests/golden/make_golden.py, rounded to float32 also where the run is in
float64. Parameter p starts at s(p, i); in update t, from 0, its gradient is
scale(t) * s("p@t", i), with a scale of 10 in every fourth update and 1 in the
others, so that some are clipped. The rate is lr * (1 + t % 3), in a group times
its rate_factor.

THE FILE: for each case its name, optimizer, options and limits; per parameter
its shape and the values after the last update in float64; norms, the norm of
all gradients (after clipping by value, before clipping by norm) in every update
where there is a limit on it; and rms_error, the root of the mean square over
all elements of PyTorch's own float32 minus its float64.
"""
import json
import os
import sys

import numpy as np
import torch

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, "..", "golden"))
from make_golden import symmetric  # noqa: E402

UPDATES = 25
SHAPES = {"conv.weight": (4, 3, 3, 2), "conv.bias": (4,), "norm.weight": (8,), "norm.bias": (8,), "fc.weight": (5, 8)}
CASES = {
    "adamw": {"optimizer": "adamw", "lr": 1e-2},
    "adamw, other numbers": {"optimizer": "adamw", "lr": 3e-2, "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-4,
                             "weight_decay": 0.1},
    "adamw, clipped by norm": {"optimizer": "adamw", "lr": 1e-2, "clip_norm": 8.0},
    "sgd, clipped by norm": {"optimizer": "sgd", "lr": 3e-2, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-2,
                             "clip_norm": 8.0},
    "sgd, clipped by value": {"optimizer": "sgd", "lr": 3e-2, "momentum": 0.9, "clip_value": 0.5},
    "sgd, clipped by value, then norm": {"optimizer": "sgd", "lr": 3e-2, "weight_decay": 1e-2, "clip_value": 2.0,
                                         "clip_norm": 8.0},
    "adamw, groups": {"optimizer": "adamw", "lr": 1e-2, "weight_decay": 0.1, "groups": [
        {"prefixes": ["norm", "conv.bias"], "weight_decay": 0.0}, {"prefixes": ["fc"], "rate_factor": 5.0}]},
    "sgd, groups": {"optimizer": "sgd", "lr": 3e-2, "momentum": 0.9, "weight_decay": 0.1, "clip_norm": 8.0, "groups": [
        {"prefixes": ["norm", "conv.bias"], "weight_decay": 0.0}, {"prefixes": ["fc"], "rate_factor": 0.25}]},
}


def numbers(key, shape, scale=1.0):
    values = np.float32(scale * symmetric(key, int(np.prod(shape))))
    return torch.from_numpy(values).view(shape)


def torch_groups(case, named):
    """Each group's parameters, then those in none, as torch.optim takes them."""
    rest, groups = dict(named), []
    for group in case.get("groups", []):
        names = [n for n in rest for p in group["prefixes"] if n == p or n.startswith(p + ".")]
        groups.append({"params": [rest.pop(n) for n in names], "factor": group.get("rate_factor", 1.0)})
        if "weight_decay" in group:
            groups[-1]["weight_decay"] = group["weight_decay"]
    return groups + [{"params": list(rest.values()), "factor": 1.0}]


def make_optimizer(case, parameters):
    if case["optimizer"] == "adamw":
        return torch.optim.AdamW(parameters, lr=case["lr"], betas=(case.get("beta1", 0.9), case.get("beta2", 0.999)),
                                 eps=case.get("epsilon", 1e-8), weight_decay=case.get("weight_decay", 0.01))
    return torch.optim.SGD(parameters, lr=case["lr"], momentum=case.get("momentum", 0.0),
                           nesterov=case.get("nesterov", False), weight_decay=case.get("weight_decay", 0.0))


def train(case, dtype):
    named = {name: numbers(name, shape).to(dtype).requires_grad_() for name, shape in SHAPES.items()}
    optimizer, norms = make_optimizer(case, torch_groups(case, named)), []
    for t in range(UPDATES):
        for name, p in named.items():
            p.grad = numbers(f"{name}@{t}", p.shape, 10.0 if t % 4 == 3 else 1.0).to(dtype)
        if "clip_value" in case:
            torch.nn.utils.clip_grad_value_(named.values(), case["clip_value"])
        if "clip_norm" in case:
            norms.append(torch.nn.utils.clip_grad_norm_(named.values(), case["clip_norm"]).item())
        for group in optimizer.param_groups:
            group["lr"] = case["lr"] * (1 + t % 3) * group["factor"]
        optimizer.step()
    return {name: p.detach().double().numpy().reshape(-1) for name, p in named.items()}, norms


def make(name, case):
    exact, norms = train(case, torch.float64)
    single, _ = train(case, torch.float32)
    error = np.concatenate([single[p] - exact[p] for p in SHAPES])
    return {"name": name, **case, "norms": norms, "rms_error": float(f"{np.sqrt(np.mean(error**2)):.4g}"),
            "parameters": [{"name": p, "shape": shape, "values": list(exact[p])} for p, shape in SHAPES.items()]}


def main():
    cases = [make(name, case) for name, case in CASES.items()]
    with open(os.path.join(FOLDER, "golden.json"), "w") as f:
        f.write(f'{{"torch": "{torch.__version__.split("+")[0]}", "updates": {UPDATES}, "cases": [\n')
        f.write(",\n".join(json.dumps(case) for case in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
