#!/usr/bin/env python3
"""Logits of every model that torchvision has too, in evaluation mode, made with
PyTorch in float64 from weights and running statistics that follow from a formula:
logits.json, which logits_test.cc compares with.

    python make_logits.py [--out FILE] [MODEL ...]

needs torch, torchvision and numpy; the test needs only the JSON file, which is kept.

Element i of a tensor, counted in brim's layout, is float32(offset + scale * s(key, i)),
with s as in make_golden.py and the tensor's name for a key:
                                    offset  scale
    weight of two or more axes      0       sqrt(6 / fan in)
    other weight (batch norm)       1       0.1
    running_var                     1       0.5
    bias, running_mean              0       0.1
    input, key "input"              0       1
formula_model.h does the same. The file holds, for each model, the logits in float64,
and the largest error of PyTorch's own float32 (channels last), over the largest logit;
and the images' size where it is not the one for all.
"""
import argparse
import json
import math
import os

import torch
import torchvision

from make_golden import from_brim, symmetric

CLASSES, BATCH, SIZE = 20, 2, 64
MODELS = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "resnext101_32x8d",
          "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2", "mobilenet_v2", "mobilenet_v3_small",
          "mobilenet_v3_large", "shufflenet_v2_x1_0", "densenet121", "inception_v3", "alexnet", "vgg16", "vgg16_bn"]
LARGE = {"inception_v3": 107}  # pixels, for a model that takes no 64
# inception_v3 is without its auxiliary classifier, which nothing here has.
OPTIONS = {"inception_v3": {"aux_logits": False, "init_weights": False}}


def constants(name, shape):
    if name.endswith("running_var"):
        return 1.0, 0.5
    if not name.endswith("weight"):
        return 0.0, 0.1
    return (0.0, math.sqrt(6 / math.prod(shape[1:]))) if len(shape) > 1 else (1.0, 0.1)


def value(name, shape):
    offset, scale = constants(name, shape)
    return from_brim(offset + scale * symmetric(name, math.prod(shape)), shape)


def build(model):
    net = getattr(torchvision.models, model)(num_classes=CLASSES, **OPTIONS.get(model, {}))
    state = {n: value(n, tuple(t.shape)) for n, t in net.state_dict().items() if t.is_floating_point()}
    net.load_state_dict(state, strict=False)  # all but num_batches_tracked
    return net.eval()


def logits(model):
    size = LARGE.get(model, SIZE)
    x = from_brim(symmetric("input", BATCH * size * size * 3), (BATCH, 3, size, size))
    with torch.no_grad():
        net = build(model).to(memory_format=torch.channels_last)
        single = net(x.contiguous(memory_format=torch.channels_last)).double()
        exact = net.double()(x.double())
    return exact, ((single - exact).abs().max() / exact.abs().max()).item()


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("models", nargs="*", default=MODELS)
    p.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "logits.json"))
    a = p.parse_args()
    torch.set_num_threads(2)
    lines = []
    for model in a.models:
        exact, error = logits(model)
        entry = {"size": LARGE[model]} if model in LARGE else {}
        entry |= {"float32_error": float(f"{error:.3g}"), "logits": [float(f"{v:.12g}") for v in exact.flatten()]}
        lines.append(f"  {json.dumps(model)}: {json.dumps(entry)}")
        print(f"{model}: largest logit {exact.abs().max():.4g}, PyTorch's float32 is off by {error:.2g}", flush=True)
    head = {"format": "brim-logits-1", "torch": torch.__version__.split("+")[0], "classes": CLASSES, "batch": BATCH,
            "size": SIZE}
    with open(a.out, "w") as f:
        f.write("{" + ",\n ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()))
        f.write(',\n "models": {\n' + ",\n".join(lines) + "\n }}\n")


if __name__ == "__main__":
    main()
