#!/usr/bin/env python3
"""Peer recipe: CIFAR ResNet-20 in PyTorch, the same recipe as apps/train.

ROOT holds train/<class>/*.jpg and val/<class>/*.jpg (32x32 RGB). Prints one
line an epoch (loss, validation accuracy, seconds) and one closing line.

The recipe, exactly, with T = epochs * floor(images / batch) updates in all:

  rate      torch.optim.lr_scheduler.OneCycleLR with max_lr = --lr, total_steps
            = T, pct_start = --rise, --anneal, and its other defaults, but for
            the momentum, which stays
  optimizer SGD, Nesterov momentum 0.9; weight decay on every parameter
  loss      cross entropy, mean over the batch, label smoothing --smooth
  images    each padded by 2 reflected pixels, cropped at a random place of its own,
            flipped with probability 1/2, then (pixel - mean) / std by channel;
            a new shuffle each epoch, the last incomplete batch left out
  weights   He normal by fan-out for convolutions, uniform +-1/sqrt(fan-in) for
            the classifier and its bias, batch norm 1 and 0
  shortcut  parameter-free: every second pixel, new channels zero (option A)
"""
import argparse
import glob
import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

MEAN = (125.3, 123.0, 113.9)
STD = (63.0, 62.1, 66.7)
PAD = 2


def load(root, split):
    """Images as uint8 [N,3,H,W] and labels; classes in alphabetical order."""
    from torchvision.io import read_image

    images, labels = [], []
    for label, name in enumerate(sorted(os.listdir(f"{root}/{split}"))):
        for path in sorted(glob.glob(f"{root}/{split}/{name}/*.jpg")):
            images.append(read_image(path))
            labels.append(label)
    return torch.stack(images), torch.tensor(labels)


def load_cached(root, cache):
    """Decoded images, kept in the file `cache` if one is named."""
    if cache and os.path.exists(cache):
        return torch.load(cache)
    data = load(root, "train") + load(root, "val")
    if cache:
        torch.save(data, cache)
    return data


class Block(nn.Module):
    def __init__(self, fan_in, fan_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(fan_in, fan_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(fan_out)
        self.conv2 = nn.Conv2d(fan_out, fan_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(fan_out)
        self.stride, self.more = stride, fan_out - fan_in

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.more:
            s = self.stride
            x = F.pad(x[:, :, ::s, ::s], (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))
        return F.relu(x + y)


class ResNet20(nn.Module):
    """He et al. 2015, section 4.2: 3 stages of 3 blocks, 16, 32 and 64 channels."""

    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        blocks, width = [], 16
        for out in (16, 32, 64):
            for i in range(3):
                blocks.append(Block(width, out, 2 if out != 16 and i == 0 else 1))
                width = out
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(64, classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        nn.init.uniform_(self.fc.weight, -1 / 8, 1 / 8)  # 1/sqrt(64)
        nn.init.uniform_(self.fc.bias, -1 / 8, 1 / 8)

    def forward(self, x):
        x = self.blocks(F.relu(self.bn1(self.conv1(x))))
        return self.fc(x.mean((2, 3)))


def normalise(x):
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (MEAN, STD))
    return ((x.float() - mean) / std).contiguous(memory_format=torch.channels_last)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("root")
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--stop-after", type=int, default=0, help="end early, with the schedule of all epochs")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--rise", type=float, default=0.15, help="share of the updates until the peak")
    p.add_argument("--anneal", choices=["linear", "cos"], default="linear")
    p.add_argument("--weight-decay", type=float, default=5e-4)
    p.add_argument("--smooth", type=float, default=0.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--compile", action="store_true", help="torch.compile instead of eager")
    p.add_argument("--cache", default="", help="file that keeps the decoded images")
    a = p.parse_args()

    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    train_x, train_y, val_x, val_y = load_cached(a.root, a.cache)
    val_x = normalise(val_x)
    # [N, 5, 5, 3, 32, 32]: every crop of every padded image, as a view.
    size = train_x.shape[2]
    padded = F.pad(train_x.float(), (PAD,) * 4, mode="reflect").byte()
    crops = padded.unfold(2, size, 1).unfold(3, size, 1).permute(0, 2, 3, 1, 4, 5)

    model = ResNet20().to(memory_format=torch.channels_last)
    forward = torch.compile(model) if a.compile else model
    opt = torch.optim.SGD(model.parameters(), lr=a.lr, momentum=0.9, nesterov=True,
                          weight_decay=a.weight_decay)

    steps = len(train_x) // a.batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        opt, max_lr=a.lr, total_steps=steps * a.epochs, pct_start=a.rise, anneal_strategy=a.anneal,
        cycle_momentum=False)
    seconds, accuracy = [], 0.0
    for epoch in range(a.stop_after or a.epochs):
        begin = time.perf_counter()
        model.train()
        order, loss_sum = torch.randperm(len(train_x)), 0.0
        for i in range(steps):
            k = order[i * a.batch:(i + 1) * a.batch]
            dy, dx = torch.randint(0, 2 * PAD + 1, (2, a.batch))
            x = crops[k, dy, dx]
            x = torch.where((torch.rand(a.batch) < 0.5).view(-1, 1, 1, 1), x.flip(3), x)
            opt.zero_grad()
            loss = F.cross_entropy(forward(normalise(x)), train_y[k], label_smoothing=a.smooth)
            loss.backward()
            opt.step()
            schedule.step()
            loss_sum += loss.item()
        seconds.append(time.perf_counter() - begin)
        model.eval()
        with torch.no_grad():
            right = sum((forward(x).argmax(1) == y).sum().item()
                        for x, y in zip(val_x.split(500), val_y.split(500)))
        accuracy = right / len(val_y)
        print(f"epoch {epoch + 1} loss {loss_sum / steps:.4f} val {accuracy:.4f} {seconds[-1]:.1f} s", flush=True)
    print(f"seed {a.seed} val {accuracy:.4f} seconds per epoch {sorted(seconds)[len(seconds) // 2]:.1f}", flush=True)


if __name__ == "__main__":
    main()
