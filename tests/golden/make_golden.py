#!/usr/bin/env python3
"""Golden values of training steps, made with PyTorch: losses and gradients in
float64, and how far PyTorch's own float32 is from them.

    python make_golden.py [--out DIR] [--search] [MODEL ...]

needs torch, torchvision and numpy; the tests need only the JSON files, which
are kept. Run it again when a model is added or the format changes.

THE PROBLEM
  Models resnet18, resnet50, mobilenet_v2, mobilenet_v3_large as torchvision
  builds them, dropout set to 0, 100 classes, batch 4, 64x64 pixels. Five steps
  on the one batch, training mode: cross entropy (mean), then for every parameter
  p, batch norm and biases included, SGD with momentum,
      g = grad + weight_decay * p;  v = momentum * v + g (first: v = g);
      p = p - lr * v,
  or, for mobilenet_v3_large, AdamW after clipping all gradients together to a
  norm of clip_norm, as torch.optim.AdamW and clip_grad_norm_ do it.
  losses[i] is the loss before update i. Afterwards eval_loss is the loss of the
  same batch in evaluation mode: it checks the running statistics (with the
  momentum of the model's batch norm, unbiased variance).
  Hard sigmoids are written out with clamp: PyTorch's own has a gradient of
  float32's 1/6 also in float64.

THE NUMBERS: every value comes from a key (a string) and an index
      fnv(key)    FNV-1a, 64 bits: h = 0xcbf29ce484222325; for each byte b:
                  h = (h ^ b) * 0x100000001b3
      mix(z)      the finaliser of splitmix64:
                  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
                  z = (z ^ (z >> 27)) * 0x94d049bb133111eb
                  z =  z ^ (z >> 31)
      z(key, i)   mix(fnv(key) + (i + 1) * 0x9e3779b97f4a7c15), modulo 2^64
      u(key, i)   (z(key, i) >> 11) * 2^-53, in [0, 1)
      s(key, i)   2 * u(key, i) - 1, in [-1, 1), exact
      value       float32(offset + scale * s(key, i))
  computed in double, without fused multiply-add, then rounded to float32 (also
  where the run is in float64, so that both start from the same numbers). The
  file gives key, offset and scale of every tensor; they follow from
                               offset  scale
      conv and linear weight   0       sqrt(6 / fan_in), where
                                       fan_in = in / groups * kh * kw, or in
      linear bias              0       0.01
      batch norm bias          0       0.1
      batch norm weight        1       0.1
          last of a ResNet     0.1     0.01
          block's branch
          its bias, resnet50   0.5     0.1
          and bias before a    2       0.1
          ReLU6
      input                    0       1, key "input"
  Running mean and variance start at 0 and 1, labels are (i * 37 + 11) % classes.
  The weak branches keep the problem well-conditioned: with 1 instead of 0.1 the
  float32 gradients of ResNet-50, 16 values a channel in its last stage, are off
  by 2%, and its losses are chaotic from the third step on. The bias keeps weak
  branches on cleared shortcuts from all lying next to ReLU's kink. Around 2 few of
  MobileNet's channels are dead, and both kinks of ReLU6 are met; around 0 a dead
  channel's variance of nearly 0 makes the second step chaotic.
  The index i counts elements in brim's layout: convolution weights
  [out, kh, kw, in / groups], linear weights [out, in], input [n, h, w, c].
  The key of a parameter is its torchvision name, except where the file says
  otherwise ("key"): see below.

THE FILE: JSON, one tensor a line
  format "brim-golden-1"; model, torch (version), classes, batch, size, steps,
  lr, weight_decay: the problem as above; momentum, or, where optimizer is
  "adamw", clip_norm and the norms of the gradients before they were clipped.
  losses            steps numbers, float64
  eval_loss         float64
  losses_f32        PyTorch's float32 on the same problem (channels last, oneDNN,
                    2 threads), and eval_loss_f32
  variants          names of other float32 runs of PyTorch, for the spread
  loss_errors       |losses_f32 - losses|, one list a variant, in that order
  margin            see below
  tensors           in the order of torchvision's named_parameters():
    name, key, offset, scale, shape (brim's layout)
    max             max |g| of the first step's gradient, float64
    rms             sqrt(mean g^2)
    rms_error       sqrt(mean (g32 - g)^2) over ALL elements, PyTorch's float32
                    (channels last, oneDNN, 2 threads)
    rms_errors      the same, one number a variant (the first is rms_error)
    elements        all of g, where the tensor has at most 64 elements
    projections     else 8 numbers: sum_i g_i * sign_j(i) / sqrt(count), where
                    sign_j(i) = -1 if bit 63 of z("proj<j>:" + name, i) is set,
                    else +1; j = 0..7 ("proj0:conv1.weight"); name, not key
    errors          float32's element or projection minus float64's
  A projection of independent errors of size e has size e, too.

HOW TO COMPARE
  float64: losses, projections and elements agree to about 1e-9 of the loss or
  of the tensor's max. Biases of batch norms that only a convolution and another
  batch norm see (17 in mobilenet_v2, 15 in mobilenet_v3_large, 9 in resnet50)
  have gradient 0 exactly;
  what the file holds is rounding, 1e-15 or so: measure it by the max of the
  weight beside the bias.
  float32: take the RMS error over all elements against one's own float64, and
  hold it against rms_error. Where one error is common to a whole tensor (the
  last bias: the error of the logits) its size is luck: PyTorch's own runs differ
  by up to 3 there and by 1.2 in the median. brim's test holds every tensor to
  twice rms_error all the same.
  An error of a loss is one draw: hold it against the deviation of all loss_errors.

WHY SOME KEYS DIFFER FROM THE NAME
  A value that lies nearer to a kink of ReLU or ReLU6, or to a tie of max
  pooling, than float32 is accurate falls on the other side by chance. Then the
  gradient is off by one whole element, about 1e-3 of its tensor, and what is
  measured is luck, not accuracy. So batch norms are given another key
  (name + "#1", "#2", ...; weight and bias together) until in the first step
  every activation is farther from a kink than MARGIN (1.5) times the largest error
  that PyTorch's float32 makes in that layer. `margin` is the least such ratio reached.
  The keys are read from the file that is there; --search looks for them afresh.
"""
import argparse
import json
import math
import os

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torchvision.ops.misc import SqueezeExcitation

CLASSES, BATCH, SIZE, STEPS = 100, 4, 64, 5
SGD = {"momentum": 0.9, "weight_decay": 1e-4}
RECIPES = {
    "resnet18": {"lr": 0.005, **SGD},
    "resnet50": {"lr": 0.002, **SGD},
    "mobilenet_v2": {"lr": 0.0005, **SGD},
    "mobilenet_v3_large": {"optimizer": "adamw", "lr": 0.0001, "weight_decay": 0.01, "clip_norm": 15.0},
}
PROJECTIONS, SMALL = 8, 64
MARGIN = 1.5
# name: (threads, channels last, oneDNN)
VARIANTS = {
    "nhwc, 2 threads": (2, True, True),
    "nhwc, 1 thread": (1, True, True),
    "nchw, 2 threads": (2, False, True),
    "nhwc, 2 threads, no oneDNN": (2, True, False),
}


def fnv(key):
    h = 0xCBF29CE484222325
    for b in key.encode():
        h = (h ^ b) * 0x100000001B3 % 2**64
    return h


def bits(key, count):
    with np.errstate(over="ignore"):
        z = np.uint64(fnv(key)) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def symmetric(key, count):
    return 2 * ((bits(key, count) >> np.uint64(11)).astype(np.float64) * 2.0**-53) - 1


def signs(name, j, count):
    return 1.0 - 2.0 * (bits(f"proj{j}:{name}", count) >> np.uint64(63)).astype(np.float64)


def to_brim(t):
    """Torch's layout of a parameter or gradient to brim's, as a numpy array."""
    return (t.permute(0, 2, 3, 1) if t.dim() == 4 else t).contiguous().numpy()


def from_brim(values, shape):
    """The flat values in brim's layout as a torch tensor of torch's shape."""
    v = torch.from_numpy(values.astype(np.float32))
    if len(shape) == 4:
        n, c, h, w = shape
        return v.view(n, h, w, c).permute(0, 3, 1, 2).contiguous()
    return v.view(shape)


class ExactHardsigmoid(nn.Module):
    def forward(self, x):
        return (x + 3).clamp(0, 6) / 6


def constants(model, name, module, shape):
    """Offset and scale of a parameter's values."""
    path, kind = name.rsplit(".", 1)
    leaf = path.rsplit(".", 1)[-1]
    if isinstance(module, nn.BatchNorm2d):
        if model == "mobilenet_v2" and leaf == "1":  # features.i.conv.j.1: ReLU6 follows
            return 2.0, 0.1
        last = "layer" in path and leaf == {"resnet18": "bn2", "resnet50": "bn3"}.get(model)
        if kind == "bias":
            return (0.5 if last and model == "resnet50" else 0.0), 0.1
        return (0.1, 0.01) if last else (1.0, 0.1)
    return 0.0, 0.01 if kind == "bias" else math.sqrt(6 / math.prod(shape[1:]))


def build(model, keys, dtype=torch.float64, channels_last=False):
    """The network, and offset and scale of each parameter by name."""
    net, used = getattr(torchvision.models, model)(num_classes=CLASSES), {}
    for path, module in net.named_modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, SqueezeExcitation):
            module.scale_activation = ExactHardsigmoid()
        for kind, p in module.named_parameters(recurse=False):
            name = f"{path}.{kind}"
            offset, scale = used[name] = constants(model, name, module, tuple(p.shape))
            p.data = from_brim(offset + scale * symmetric(keys.get(name, name), p.numel()), tuple(p.shape))
    net = net.to(dtype).train()
    return (net.to(memory_format=torch.channels_last) if channels_last else net), used


def batch(dtype, channels_last=False):
    x = from_brim(symmetric("input", BATCH * SIZE * SIZE * 3), (BATCH, 3, SIZE, SIZE)).to(dtype)
    x = x.contiguous(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
    return x, torch.tensor([(i * 37 + 11) % CLASSES for i in range(BATCH)])


def watch(net, note):
    """Calls note(batch norm that ran last, module, input) before every activation
    and max pooling, in the order of execution."""
    last = [None]
    for path, module in net.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            module.register_forward_pre_hook(lambda m, x, path=path: last.__setitem__(0, path))
        if isinstance(module, (nn.ReLU, nn.ReLU6, nn.Hardswish, ExactHardsigmoid, nn.MaxPool2d)):
            module.register_forward_pre_hook(lambda m, x: note(last[0], m, x[0].detach().double()))


def distance(module, x):
    """The least distance of x to a point where the derivative jumps."""
    if isinstance(module, nn.MaxPool2d):
        windows = F.unfold(F.pad(x, (1,) * 4, value=0.0), 3, stride=2)  # after a ReLU: 0 loses
        top = windows.view(x.shape[0], x.shape[1], 9, -1).topk(2, dim=2).values
        gap = top[:, :, 0] - top[:, :, 1]
        return gap[top[:, :, 0] > 0].min().item()
    kinks = {nn.ReLU: [0], nn.ReLU6: [0, 6]}.get(type(module), [-3, 3])
    return min((x - kink).abs().min().item() for kink in kinks)


class Found(Exception):
    pass


def margins(model, keys, stop_below=0.0):
    """For every kink of the first forward pass: (batch norm, distance / largest
    float32 error). Ends with the first that is less than stop_below."""
    exact, single, out = build(model, keys)[0], build(model, keys, torch.float32, True)[0], []
    inputs = []
    watch(single, lambda bn, module, x: inputs.append(x.clone()))  # activations work in place

    def compare(bn, module, x):
        out.append((bn, distance(module, x) / (x - inputs[len(out)]).abs().max().item()))
        if out[-1][1] < stop_below:
            raise Found

    watch(exact, compare)
    with torch.no_grad():
        single(batch(torch.float32, True)[0])
        try:
            exact(batch(torch.float64)[0])
        except Found:
            pass
    return out


def search(model):
    """Keys that give every kink its margin, found from the first layer on."""
    keys, tries = {}, {}
    while True:
        bn, least = margins(model, keys, MARGIN)[-1]
        if least >= MARGIN:
            return keys
        tries[bn] = tries.get(bn, 0) + 1
        print(f"{model} {bn} margin {least:.2f}, trying key #{tries[bn]}", flush=True)
        for kind in ("weight", "bias"):
            keys[f"{bn}.{kind}"] = f"{bn}.{kind}#{tries[bn]}"


def optimizer(recipe, parameters):
    if recipe.get("optimizer") == "adamw":
        return torch.optim.AdamW(parameters, lr=recipe["lr"], weight_decay=recipe["weight_decay"])
    return torch.optim.SGD(parameters, **recipe)


def train(model, keys, dtype, channels_last=False):
    """Losses, the loss in evaluation mode, the first step's gradients, offset
    and scale of the parameters, and norms where gradients are clipped."""
    net, used = build(model, keys, dtype, channels_last)
    x, y = batch(dtype, channels_last)
    recipe = RECIPES[model]
    opt = optimizer(recipe, net.parameters())
    losses, grads, norms = [], None, []
    for _ in range(STEPS):
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        grads = grads or {n: to_brim(p.grad.clone().double()) for n, p in net.named_parameters()}
        if "clip_norm" in recipe:
            norms.append(nn.utils.clip_grad_norm_(net.parameters(), recipe["clip_norm"]).item())
        opt.step()
        losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        return losses, F.cross_entropy(net(x), y).item(), grads, used, norms


def in_float32(model, keys, variant):
    threads, channels_last, onednn = VARIANTS[variant]
    torch.set_num_threads(threads)
    with torch.backends.mkldnn.flags(enabled=onednn):
        return train(model, keys, torch.float32, channels_last)


def rms(g):
    return float(np.sqrt(np.mean(np.square(g))))


def record(name, g):
    """What is kept of a gradient: all of it, or its projections."""
    flat = g.reshape(-1)
    if flat.size <= SMALL:
        return flat
    return np.array([np.dot(flat, signs(name, j, flat.size)) / math.sqrt(flat.size) for j in range(PROJECTIONS)])


def full(values):
    return [float(f"{v:.17g}") for v in values]


def brief(values):
    return [float(f"{v:.4g}") for v in values]


def tensor(name, key, constants, g, others):
    entry = {"name": name, "key": key, "offset": constants[0], "scale": constants[1], "shape": list(g.shape),
             "max": float(np.abs(g).max()), "rms": rms(g)}
    errors = brief(rms(o - g) for o in others)
    kept = record(name, g)
    entry |= {"rms_error": errors[0], "rms_errors": errors,
              "elements" if g.size <= SMALL else "projections": full(kept),
              "errors": brief(record(name, others[0]) - kept)}
    return entry


def make(model, keys):
    torch.set_num_threads(2)
    losses, eval_loss, grads, used, norms = train(model, keys, torch.float64)
    runs = [in_float32(model, keys, v) for v in VARIANTS]
    torch.set_num_threads(2)
    head = {"format": "brim-golden-1", "model": model, "torch": torch.__version__.split("+")[0],
            "classes": CLASSES, "batch": BATCH, "size": SIZE, "steps": STEPS, **RECIPES[model],
            **({"norms": full(norms)} if norms else {}), "losses": full(losses), "eval_loss": eval_loss,
            "losses_f32": full(runs[0][0]), "eval_loss_f32": runs[0][1],
            "variants": list(VARIANTS),
            "loss_errors": [brief(abs(a - b) for a, b in zip(r[0], losses)) for r in runs],
            "margin": float(f"{min(m for _, m in margins(model, keys)):.3g}")}
    tensors = [tensor(n, keys.get(n, n), used[n], g, [r[2][n] for r in runs]) for n, g in grads.items()]
    return head, tensors


def write(path, head, tensors):
    with open(path, "w") as f:
        f.write("{" + ",\n ".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in head.items()))
        f.write(',\n "tensors": [\n  ' + ",\n  ".join(json.dumps(t) for t in tensors) + "\n]}\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("models", nargs="*", default=list(RECIPES))
    p.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    p.add_argument("--search", action="store_true", help="look for keys afresh")
    a = p.parse_args()
    for model in a.models:
        path = f"{a.out}/{model}.json"
        if a.search or not os.path.exists(path):
            keys = search(model)
        else:
            keys = {t["name"]: t["key"] for t in json.load(open(path))["tensors"]}
        head, tensors = make(model, keys)
        write(path, head, tensors)
        print(f"{path}: losses {head['losses']}, eval {head['eval_loss']:.6g}, margin {head['margin']}")


if __name__ == "__main__":
    main()
