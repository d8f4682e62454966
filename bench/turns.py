"""Programs that take turns on one machine: while one runs, the others sleep.

A `Server` answers `step N` (server.h); `Epochs` wraps any program that prints a line an epoch.
`take_turns` lets each have its round, in an order that moves on from round to round, so that a slow
moment of the machine hits all.
"""
import atexit
import os
import signal
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
# glibc keeps big buffers, where by default they come fresh from the system each time.
TUNED = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TOP_PAD_": "268435456", "MALLOC_TRIM_THRESHOLD_": "99999999999"}


class Program:
    """One that is running; `seconds` are of its steps, `medians` of its rounds. One that works ahead
    by itself is stopped by a signal between its turns, with all its processes."""

    def __init__(self, name, command, env, works_ahead=False):
        self.name, self.command, self.env = name, command, env
        self.seconds, self.medians, self.works_ahead = [], [], works_ahead
        try:
            self.process = subprocess.Popen(command, env={**os.environ, **env}, text=True, stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE, start_new_session=works_ahead)
        except OSError as e:
            sys.exit(f"{sys.argv[0]}: cannot start {name}: {e}")
        if works_ahead:
            atexit.register(self.kill)  # no signal of a terminal reaches its group
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # which by default ends without atexit

    def of_build(self, name, folder):
        """The same program with the same flags from another build, warm."""
        return self.like(name, [program_of(folder, self.command[0]), *self.command[1:]])

    def fail(self, why):
        self.process.kill()
        sys.exit(f"{sys.argv[0]}: {self.name} {why} (exit {self.process.wait()})")

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.fail("ended early")
        return line.strip()

    def signal(self, what):
        if self.works_ahead and self.process.returncode is None:
            os.killpg(self.process.pid, what)

    def wake(self):
        self.signal(signal.SIGCONT)

    def sleep(self):
        self.signal(signal.SIGSTOP)

    def keep(self, seconds):
        self.seconds += seconds
        self.medians.append(statistics.median(seconds))

    def kill(self):
        self.signal(signal.SIGKILL)

    def stop(self):
        if self.works_ahead:
            self.kill()
        self.process.stdin.close()
        self.process.wait()


class Server(Program):
    """A program that speaks the protocol of step_server."""

    def __init__(self, name, command, env, works_ahead=False):
        super().__init__(name, command, env, works_ahead)
        if self.answer() != "ready":
            self.fail("did not say `ready`")
        self.sleep()

    def like(self, name, command):
        return Server(name, command, self.env, self.works_ahead)

    def ask(self, question):
        self.wake()
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        said = self.answer()
        self.sleep()
        return said

    def round(self, steps, keep=True):
        line = self.ask(f"step {steps}")
        seconds = [float(s) for s in line.split()]
        if len(seconds) != steps:
            self.fail(f"answered `{line}` to `step {steps}`")
        if keep:
            self.keep(seconds)

    def settle(self):
        """After the others' warm-up: fills the caches again."""
        self.round(1, keep=False)

    def peak(self):
        """Bytes of tensors at the most, scratch included; of step_server alone."""
        return int(self.ask("peak"))

    def bound(self):
        """Seconds of a step at this machine's peak; nothing where the program does not know."""
        said = self.ask("bound")
        return None if said == "unknown" else float(said)


class Epochs(Program):
    """A training that prints a line an epoch, of which `loss_of` finds the loss, or nothing in
    another line. The first epoch is run at once and not kept: data are read and code is compiled
    in it. Seconds are from line to line, evaluation included."""

    def __init__(self, name, command, env, loss_of):
        super().__init__(name, command, env, works_ahead=True)
        self.loss_of, self.losses = loss_of, []
        self.epoch()
        self.sleep()

    def like(self, name, command):
        return Epochs(name, command, self.env, self.loss_of)

    def epoch(self):
        loss = None
        while loss is None:
            loss = self.loss_of(self.answer())
        self.losses.append(loss)

    def round(self, steps):
        seconds = []
        self.wake()
        for _ in range(steps):
            begin = time.perf_counter()
            self.epoch()
            seconds.append(time.perf_counter() - begin)
        self.sleep()
        self.keep(seconds)

    def settle(self):
        pass  # an epoch is long enough

    def bound(self):
        return None


def take_turns(programs, rounds, steps):
    for i in range(rounds):
        k = i % len(programs)
        turn = programs[k:] + programs[:k]
        for p in turn if i % 2 == 0 else reversed(turn):
            p.round(steps)


def spread(seconds):
    return {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds), "seconds": seconds}


def ratio(over, under):
    """Median of `over` over that of `under`, with the least and the greatest of one round."""
    each = [a / b for a, b in zip(over.medians, under.medians)]
    return {"ratio": statistics.median(over.seconds) / statistics.median(under.seconds), "ratio_min": min(each),
            "ratio_max": max(each)}


def built(folder, name):
    return os.path.join(ROOT, "bazel-bin", folder, name)


def program_of(folder, path):
    """That of another build: in its bazel-bin, or in a folder that programs were copied to."""
    name = os.path.basename(path)
    places = [os.path.join(folder, os.path.basename(os.path.dirname(path)), name), os.path.join(folder, name)]
    for place in places:
        if os.path.isfile(place):
            return place
    sys.exit(f"{sys.argv[0]}: no {name} in '{folder}': neither {' nor '.join(places)}")


def peer(python, script):
    return [python, os.path.join(HERE, "peers", script)]


def step_flags(of, threads):
    """What servers of steps and their peers both understand, of anything with these names."""
    return ["--model", of.model, "--batch", str(of.batch), "--size", str(of.size), "--threads", str(threads)]


def torch_peers(command, env):
    """(name, command, environment) of PyTorch eager, compiled, and eager with an allocator that keeps
    its pages: by default big buffers are faulted in anew at each step. None without an interpreter."""
    if command[0] is None:
        return []
    return [("torch", command, env), ("torch compiled", [*command, "--compile"], env),
            ("torch tuned", command, {**env, **TUNED})]
