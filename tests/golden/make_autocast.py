#!/usr/bin/env python3
"""How far PyTorch's autocast is from float64, for the tests of brim's.

    python make_autocast.py [--out DIR] [MODEL ...]

needs torch, torchvision and numpy; the tests need only autocast.json, which is kept.

The problem is that of make_golden.py, whose files give the numbers that it starts from: five
steps of SGD on one batch. The model is float32; forward runs in torch.autocast("cpu", dtype) of
bfloat16 and of float16, channels last and not, which round in different places.

THE FILE: JSON; by model and dtype
  losses       five, of each variant
  rms_errors   by parameter and variant: the RMS of the error of the first step's gradient
               against float64's, over all elements
In halves no two implementations agree: hold one's own error against these.
"""
import argparse
import json
import os

import numpy as np
import torch
import torch.nn.functional as F

from make_golden import RECIPES, STEPS, batch, brief, build, full, optimizer, rms, to_brim, train

MODELS = ["resnet18", "mobilenet_v2"]
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
VARIANTS = {"nhwc": True, "nchw": False}


def low(model, keys, dtype, channels_last):
    """Losses, and the first step's gradients."""
    net, _ = build(model, keys, torch.float32, channels_last)
    x, y = batch(torch.float32, channels_last)
    opt = optimizer(RECIPES[model], net.parameters())
    losses, grads = [], None
    for _ in range(STEPS):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        grads = grads or {n: to_brim(p.grad.clone().double()) for n, p in net.named_parameters()}
        opt.step()
        losses.append(loss.item())
    return losses, grads


def make(model, folder):
    keys = {t["name"]: t["key"] for t in json.load(open(f"{folder}/{model}.json"))["tensors"]}
    exact = train(model, keys, torch.float64)[2]
    entry = {}
    for name, dtype in DTYPES.items():
        runs = [low(model, keys, dtype, channels_last) for channels_last in VARIANTS.values()]
        entry[name] = {
            "losses": [full(r[0]) for r in runs],
            "rms_errors": {n: brief(rms(r[1][n] - g) for r in runs) for n, g in exact.items()},
        }
    return entry


def lines(value):
    """JSON with a list a line."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{" + ",\n".join(f"{json.dumps(k)}: {lines(v)}" for k, v in value.items()) + "}"


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("models", nargs="*", default=MODELS)
    p.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    a = p.parse_args()
    torch.set_num_threads(2)
    golden = {"format": "brim-autocast-1", "torch": torch.__version__.split("+")[0], "variants": list(VARIANTS),
              "models": {model: make(model, a.out) for model in a.models}}
    with open(f"{a.out}/autocast.json", "w") as f:
        f.write(lines(golden) + "\n")
    for model, entry in golden["models"].items():
        for dtype, numbers in entry.items():
            print(model, dtype, numbers["losses"])


if __name__ == "__main__":
    main()
