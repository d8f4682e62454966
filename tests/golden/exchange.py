#!/usr/bin/env python3
"""Weights across the border, both ways, for every model that torchvision has too:

  in    PyTorch's state dict, random weights and running statistics -> safetensors ->
        brim's infer; its logits against PyTorch's in float64
  out   brim's weights -> safetensors -> load_state_dict(strict=True); brim's logits of
        that file against PyTorch's in float64
  back  that state dict saved by PyTorch -> brim's infer: the same logits, to the bit

    bazel build //apps:infer //tests/golden:save_model
    python exchange.py [--bin bazel-bin] [MODEL ...]

needs torch, torchvision, numpy and safetensors. Not among the tests, which have no
PyTorch: logits_test.cc and weights_test.cc check the same without. Prints the largest
errors over the largest logit, and exits with 1 where one is above 2e-5.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torchvision
from safetensors.torch import load_file, save_file

from make_logits import LARGE, MODELS, OPTIONS, SIZE

CLASSES, BATCH, BOUND = 1000, 2, 2e-5


def randomize(net, seed):
    """Torch's initial weights, random statistics."""
    g = torch.Generator().manual_seed(seed)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.weight.data.uniform_(0.5, 1.5, generator=g)
            module.bias.data.normal_(0, 0.1, generator=g)
            module.running_mean.normal_(0, 0.1, generator=g)
            module.running_var.uniform_(0.5, 1.5, generator=g)
            module.num_batches_tracked.fill_(seed)
    return net.eval()


def exact(net, x):
    with torch.no_grad():
        return net.double()(torch.from_numpy(x).double().permute(0, 3, 1, 2)).numpy()


class Exchange:
    def __init__(self, bin, folder):
        self.bin, self.folder = bin, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def infer(self, weights, model):
        subprocess.run([f"{self.bin}/apps/infer", "--quiet", "--weights", self.path(weights), "--model", model,
                        "--input", self.path("x.npy"), "--output", self.path("y.npy")], check=True)
        return np.load(self.path("y.npy"))

    def error(self, ours, net):
        theirs = exact(net, self.x)
        return np.abs(ours - theirs).max() / np.abs(theirs).max()

    def run(self, model):
        make, size = getattr(torchvision.models, model), LARGE.get(model, SIZE)
        self.x = np.random.default_rng(1).standard_normal((BATCH, size, size, 3), dtype=np.float32)
        np.save(self.path("x.npy"), self.x)
        net = randomize(make(num_classes=CLASSES), len(model))  # also with what OPTIONS leave out
        save_file(net.state_dict(), self.path("in.safetensors"))
        error_in = self.error(self.infer("in.safetensors", model), net)

        subprocess.run([f"{self.bin}/tests/golden/save_model", model, str(CLASSES), self.path("out.safetensors")],
                       check=True)
        net = make(num_classes=CLASSES, **OPTIONS.get(model, {})).eval()
        net.load_state_dict(load_file(self.path("out.safetensors")), strict=True)
        ours = self.infer("out.safetensors", model)
        save_file(net.state_dict(), self.path("in.safetensors"))
        same = np.array_equal(ours, self.infer("in.safetensors", model))
        error_out = self.error(ours, net)
        good = error_in <= BOUND and error_out <= BOUND and same
        print(f"{model:20} in {error_in:.2e}  out {error_out:.2e}  back {'same bits' if same else 'DIFFERS'}"
              f"{'' if good else '  FAILED'}", flush=True)
        return good


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("models", nargs="*", default=MODELS)
    p.add_argument("--bin", default="bazel-bin")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        exchange = Exchange(a.bin, folder)
        if not all([exchange.run(model) for model in a.models]):
            sys.exit(1)


if __name__ == "__main__":
    main()
