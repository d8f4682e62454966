#!/usr/bin/env python3
"""The parameters and buffers of every model, as torchvision names them: the files in golden/ that
models_test.cc compares with.

    python make_names.py [--out DIR] [MODEL ...]

needs torch and torchvision; the test needs only the files, which are kept. One line each, in
torchvision's order: `parameter NAME SHAPE`, then `buffer NAME SHAPE`; shapes in brim's layout,
convolution weights [out, height, width, in / groups]. Batch norm's num_batches_tracked is left
out: brim has a fixed momentum and no use for it. Then `outputs SIZE SHAPE`, the shape of
the result for a batch of 2 at that many pixels, first the usual ones, then few; and, for one model
of each kind, `logit INDEX VALUE`: elements of its result in training mode for a batch of 2 at the
few pixels, without dropout, in float64. For those in WITH_GRADIENT also `gradient INDEX VALUE`:
elements of the gradient of the first parameter, in brim's layout, for the mean cross entropy with
labels (i * 37 + 11) % classes, i counting images, or pixels of all of them.

The numbers for that come from a key (the parameter's name, or "input") and the element's number i
in brim's layout: h = FNV-1a of the key, 64 bits; z = splitmix64's finaliser of
h + (i + 1) * 0x9e3779b97f4a7c15; s = (z >> 11) * 2^-52 - 1, in [-1, 1). The input is s, a weight of
a convolution or linear layer s * sqrt(6 / fan in), a norm's weight 1 + s / 10, and all biases
s / 10.

MobileNet V1, the ResNet for CIFAR and U-Net are not in torchvision: they are written out here.
Inception V3 is there without its auxiliary classifier, and with it: then the logits are that one's,
at the usual size, as it takes no smaller one.
"""
import argparse
import math
import os

import numpy as np
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

CLASSES = 1000
LOGITS = [0, 1, 2, 499, 999, 1000, 1500, 1999]
ONE_OF_EACH = ["resnet18", "resnet50", "resnext50_32x4d", "resnet20", "mobilenet_v1",
               "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "shufflenet_v2_x1_0",
               "densenet121", "inception_v3", "inception_v3_auxiliary", "unet", "unet_bilinear"]
WITH_GRADIENT = ["shufflenet_v2_x1_0", "densenet121", "inception_v3", "unet", "unet_bilinear"]
TORCHVISION = ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d",
               "resnext101_32x8d", "resnext101_64x4d", "wide_resnet50_2", "wide_resnet101_2",
               "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "shufflenet_v2_x1_0",
               "densenet121", "alexnet", "vgg16", "vgg16_bn"]
# 107 leaves 2x2 of Inception's last image; 50 has U-Net drop rows, and pad.
SIZES = {"inception_v3": (299, 107), "inception_v3_auxiliary": (299, 299), "unet": (64, 50),
         "unet_bilinear": (64, 50)}


class CifarBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, cout // cin, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.more = cout - cin

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.more:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.more // 2, self.more // 2))
        return F.relu(y + x)


class CifarResNet(nn.Module):
    def __init__(self, n=3, classes=CLASSES):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        channels = [16] * (n + 1) + [32] * n + [64] * n
        blocks = [CifarBlock(a, b) for a, b in zip(channels, channels[1:])]
        self.layer1 = nn.Sequential(*blocks[:n])
        self.layer2 = nn.Sequential(*blocks[n:2 * n])
        self.layer3 = nn.Sequential(*blocks[2 * n:])
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


def conv_bn(cin, cout, kernel, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(cout), nn.ReLU())


class MobileNetV1(nn.Module):
    def __init__(self, classes=CLASSES):
        super().__init__()
        channels = [32, 64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024]
        strides = [1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1]
        blocks = [nn.Sequential(conv_bn(a, a, 3, s, a), conv_bn(a, b, 1))
                  for a, b, s in zip(channels, channels[1:], strides)]
        self.features = nn.Sequential(conv_bn(3, 32, 3, 2), *blocks)
        self.classifier = nn.Linear(1024, classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


def double_conv(cin, hidden, cout):
    return nn.Sequential(nn.Conv2d(cin, hidden, 3, padding=1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU(),
                         nn.Conv2d(hidden, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, bilinear, channels=4, classes=3):
        super().__init__()
        c = [channels * 2**i for i in range(5)]
        half = 2 if bilinear else 1
        self.inc = double_conv(3, c[0], c[0])
        for i in range(1, 5):
            out = c[i] // half if i == 4 else c[i]
            setattr(self, f"down{i}", double_conv(c[i - 1], out, out))
        for i in range(1, 5):
            level, out = c[4 - i], c[4 - i] // half if i < 4 else c[0]
            up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True) if bilinear else \
                nn.ConvTranspose2d(2 * level, level, 2, 2)
            setattr(self, f"up{i}", up)
            setattr(self, f"conv{i}", double_conv(2 * level, level, out))
        self.outc = nn.Conv2d(channels, classes, 1)

    def forward(self, x):
        skips, x = [], self.inc(x)
        for i in range(1, 5):
            skips.append(x)
            x = getattr(self, f"down{i}")(F.max_pool2d(x, 2))
        for i in range(1, 5):
            skip, x = skips.pop(), getattr(self, f"up{i}")(x)
            x = F.pad(x, (0, skip.shape[3] - x.shape[3], 0, skip.shape[2] - x.shape[2]))
            x = getattr(self, f"conv{i}")(torch.cat([skip, x], 1))
        return self.outc(x)


def shape(t):
    if t.dim() == 4:
        t = t.permute(0, 2, 3, 1)
    return "[" + ",".join(str(n) for n in t.shape) + "]"


def numbers(key, count):
    h = 0xCBF29CE484222325
    for byte in key.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(h) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1


def in_torch_layout(values, shape):
    values = torch.from_numpy(values)
    if len(shape) != 4:
        return values.view(shape)
    n, c, h, w = shape
    return values.view(n, h, w, c).permute(0, 3, 1, 2)


def initial(module, name, shape):
    s = numbers(name, math.prod(shape))
    if name.endswith("bias"):
        s = s / 10
    elif isinstance(module, nn.BatchNorm2d):
        s = 1 + s / 10
    else:
        s = s * math.sqrt(6 / math.prod(shape[1:]))
    return in_torch_layout(s, shape)


def in_brim_layout(t):
    return t.permute(0, 2, 3, 1) if t.dim() == 4 else t


def result(model, x):
    y = model(x)
    return y.aux_logits if isinstance(y, tuple) else y


def logits(model, size, gradient):
    """The result and, if wanted, the gradient of the first parameter, both in brim's layout."""
    model = model.to_empty(device="cpu").double().train()
    for path, module in model.named_modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
        for kind, p in module.named_parameters(recurse=False):
            p.data = initial(module, f"{path}.{kind}", tuple(p.shape))
    x = in_torch_layout(numbers("input", 2 * size * size * 3), (2, 3, size, size))
    with torch.set_grad_enabled(gradient):
        y = in_brim_layout(result(model, x))
        if not gradient:
            return y.flatten(), None
        rows = y.reshape(-1, y.shape[-1])
        labels = (torch.arange(rows.shape[0]) * 37 + 11) % rows.shape[1]
        first = next(model.parameters())
        grad, = torch.autograd.grad(F.cross_entropy(rows, labels), first)
        return y.detach().flatten(), in_brim_layout(grad).flatten()


def write(path, name, model):
    sizes = SIZES.get(name, (224, 64))
    with open(path, "w") as f:
        for key, p in model.named_parameters():
            print("parameter", key, shape(p), file=f)
        for key, b in model.named_buffers():
            if not key.endswith("num_batches_tracked"):
                print("buffer", key, shape(b), file=f)
        model.eval()
        for size in sizes:
            with torch.no_grad():
                y = result(model, torch.zeros(2, 3, size, size, device="meta"))
            print("outputs", size, shape(y), file=f)
        if name in ONE_OF_EACH:
            values, gradient = logits(model, sizes[1], name in WITH_GRADIENT)
            for i in LOGITS:
                print("logit", i, f"{values[i].item():.17g}", file=f)
            if gradient is not None:
                for i in range(0, len(gradient), len(gradient) // 8):
                    print("gradient", i, f"{gradient[i].item():.17g}", file=f)
    count = sum(p.numel() for p in model.parameters())
    print(f"{path}: {count} parameters")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("models", nargs="*", default=[])
    p.add_argument("--out", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    with torch.device("meta"):
        models = {n: getattr(torchvision.models, n)(num_classes=CLASSES) for n in TORCHVISION}
        models |= {"resnet20": CifarResNet(), "mobilenet_v1": MobileNetV1()}
        for name, aux in ("inception_v3", False), ("inception_v3_auxiliary", True):
            models[name] = torchvision.models.inception_v3(num_classes=CLASSES, aux_logits=aux, init_weights=False)
        models |= {"unet": UNet(False), "unet_bilinear": UNet(True)}
    for name in a.models or models:
        write(f"{a.out}/{name}.txt", name, models[name])


if __name__ == "__main__":
    main()
