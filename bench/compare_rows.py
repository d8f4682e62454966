"""What bench/compare.py measures: each row starts brim and its peers, and says what is wanted.

A row is one of the classes below. `programs` starts them, brim first, and each warms up; `missing`
says what a run without it cannot do, or nothing. Another row is another line of ROWS.
"""
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass

from turns import HERE, Epochs, Server, built, peer, step_flags, torch_peers

TRAIN_RATE = 0.1 / 64  # of an image in an update: resnet20's recipe in apps/train


@dataclass
class Row:
    bars: tuple  # times of the peers over ours: eager, compiled, tuned
    steps: int  # of a round
    most_rounds: int = 1000  # where a step is long
    bytes_bar = None
    targets = ("//bench:step_server",)

    def missing(self, a):
        return None

    def torch_peak(self, python):
        """MiB of a peer's tensors, where that is known."""
        return None

    def notes(self, programs):
        """More that was seen, in words."""
        return {}


def environment(threads):
    return {"OMP_NUM_THREADS": str(threads)}


def servers(row, a, python, ours, theirs, flags=(), ours_alone=()):
    """brim's program of that name, and PyTorch's three ways with the script, for a model's row."""
    flags, env = [*step_flags(row, a.threads), *flags], environment(a.threads)
    torch = [*peer(python, theirs), "--serve", *flags]
    return [Server("brim", [built("bench", ours), *flags, *ours_alone], env),
            *(Server(*p) for p in torch_peers(torch, env))]


@dataclass
class TrainingStep(Row):
    model: str = ""
    size: int = 0
    batch: int = 0
    dtype: str = "f32"
    bytes_bar: float = 0.75
    ours: str = ""  # brim's flags: "--replay" where kernels are many and short, or a "--budget"

    def name(self):
        budget = re.search(r"--budget (\d+)MiB", self.ours)
        return (f"{self.model}, {self.size}, batch {self.batch}, {self.dtype}" +
                (f", brim in {budget[1]} MiB" if budget else ""))

    def programs(self, a, python):
        return servers(self, a, python, "step_server", "torch_step.py", ["--dtype", self.dtype],
                       self.ours.split())

    def torch_peak(self, python):
        said = subprocess.run([*peer(python, "torch_peak.py"), "--model", self.model, "--batch", str(self.batch),
                               "--size", str(self.size), "--dtype", self.dtype],
                              check=True, capture_output=True, text=True).stdout
        return float(re.findall(r"([\d.]+) MiB", said)[-1])


@dataclass
class Inference(Row):
    model: str = ""
    size: int = 0
    batch: int = 0
    targets = ("//bench:infer_server",)

    def name(self):
        return f"{self.model} inference, {self.size}, batch {self.batch}, batch norm folded"

    def programs(self, a, python):
        return servers(self, a, python, "infer_server", "torch_infer.py")


@dataclass
class CifarEpoch(Row):
    """brim's program against a loop in PyTorch that has all images in memory, decoded: train/<class>/*.jpg
    and val/<class>/*.jpg of --cifar. One recipe (peers/torch_cifar.py), whose schedule ends with the
    last epoch measured."""
    model: str = "resnet20"
    size: int = 32
    batch: int = 128
    targets = ("//examples:train",)  # where builds of before have it too

    def name(self):
        return f"{self.model}, {self.size}, batch {self.batch}, whole CIFAR epoch with loading"

    def missing(self, a):
        return None if a.cifar else "needs CIFAR-10 as JPEG files: --cifar DIR"

    def programs(self, a, python):
        epochs = 1 + self.steps * min(a.rounds, self.most_rounds)
        flags = ["--batch", str(self.batch), "--epochs", str(epochs), "--threads", str(a.threads),
                 "--lr", str(TRAIN_RATE * self.batch)]
        env = environment(a.threads)
        brim = [built("examples", "train"), "--data", a.cifar, "--model", self.model, "--json", "-", *flags]
        torch = [*peer(python, "torch_cifar.py"), a.cifar, *flags]
        return [Epochs("brim", brim, env, brim_loss), *(Epochs(*p, torch_loss) for p in torch_peers(torch, env))]

    def notes(self, programs):
        return {"losses of epochs": {p.name: p.losses for p in programs}}


def brim_loss(line):
    event = json.loads(line)
    return event["train_loss"] if event["event"] == "epoch" else None


def torch_loss(line):
    found = re.match(r"epoch \d+ loss ([\d.]+|nan)", line)
    return float(found[1]) if found else None


@dataclass
class Photographs(Row):
    """Batches of 64 of photographs of about 500x375 pixels, normalised, in one thread; made where
    --photos has none."""
    evaluation: bool = False
    targets = ("//bench:loader_bench",)

    def name(self):
        return f"JPEG folder to batches, {'evaluation' if self.evaluation else 'training'}, per core"

    def programs(self, a, python):
        if not os.path.exists(a.photos):
            subprocess.run([python or sys.executable, os.path.join(HERE, "make_photos.py"), a.photos], check=True)
        flags, env = ["--data", a.photos, *(["--evaluation"] if self.evaluation else [])], environment(1)
        torch = [Server("torch", [*peer(python, "torch_loader.py"), *flags], env)] if python else []
        return [Server("brim", [built("bench", "loader_bench"), *flags], env), *torch]


def step(model, size, batch, dtype, steps, bars, bytes_bar, ours=""):
    return TrainingStep(bars, steps, model=model, size=size, batch=batch, dtype=dtype, bytes_bar=bytes_bar,
                        ours=ours)


ROWS = [
    step("resnet50", 224, 16, "f32", 1, (1.5, 1.25, 1.3), 0.75),
    step("resnet50", 224, 16, "bf16", 1, (1.4, 1.15, 1.2), 0.75),
    step("mobilenet_v2", 224, 32, "f32", 1, (3.5, 2.0, 2.0), 0.55),
    step("mobilenet_v2", 224, 32, "bf16", 1, (3.0, 1.8, 1.7), 0.55),
    step("resnet18", 64, 64, "f32", 4, (1.4, 1.15, 1.3), 0.75, "--budget 184MiB"),
    step("resnet18", 64, 1, "f32", 30, (3.0, 1.5, 3.0), 0.75, "--replay"),
    CifarEpoch((2.0, 1.5, 1.8), 1, most_rounds=3),
    Inference((1.5, 1.15, 1.4), 20, model="resnet50", size=224, batch=1),
    Photographs((1.1,), 2),
    Photographs((1.1,), 2, evaluation=True),
]
