#!/usr/bin/env python3
"""What the parts of `gpu.sh run` stand on: programs with a limit, and what the machine says of itself.

Not to be called by itself: see gpu.sh --help. Python 3.8 and its standard library are enough.
"""
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
KEPT_OUTPUT = 4000  # characters of what a failed program printed


class Skipped(Exception):
    pass


class Failed(Exception):
    """`facts` stay in the part."""

    def __init__(self, why, **facts):
        super().__init__(why)
        self.facts = facts


class Finished:
    def __init__(self, code, output, seconds, ended):
        self.code, self.output, self.seconds, self.ended = code, output, seconds, ended

    def why(self):
        """Why it counts as failed; None where it does not."""
        if not self.ended:
            return f"did not end within its limit ({self.seconds:.0f} s)"
        if self.code < 0:
            return f"ended by signal {signal.Signals(-self.code).name}"
        return f"exit code {self.code}" if self.code else None

    def tail(self):
        return self.output[-KEPT_OUTPUT:]


def our_environment(**more):
    """Of brim's programs: with the libraries that gpu.sh found."""
    # The order of nvidia-smi and NVML: all mean the same GPU by 0.
    return {**os.environ, "LD_LIBRARY_PATH": os.environ.get("BRIM_LIBRARY_PATH", ""),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID", **more}


def callers_environment():
    """Of others: PyTorch brings libraries of its own."""
    path = os.environ.get("BRIM_CALLERS_LIBRARY_PATH", "")
    rest = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    return {**rest, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", **({"LD_LIBRARY_PATH": path} if path else {})}


def run_program(command, limit, env=None, cwd=None):
    """Runs it with its children in a group, which is gone when this returns."""
    start = time.monotonic()
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                       env=our_environment() if env is None else env, cwd=cwd,
                                       start_new_session=True)
        except OSError as error:
            return Finished(127, f"{command[0]}: {error.strerror}", 0, True)
        ended = True
        try:
            process.wait(max(limit, 0.01))
        except subprocess.TimeoutExpired:
            ended = False
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
        process.wait()
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Finished(process.returncode, text, time.monotonic() - start, ended)


def find_tool(name):
    """One of CUDA's programs; None where it is not here."""
    homes = [os.environ[v] for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)] or ["/usr/local/cuda"]
    places = [*os.environ.get("PATH", "").split(os.pathsep), *(os.path.join(home, "bin") for home in homes)]
    return next((path for path in (os.path.join(folder, name) for folder in places) if os.access(path, os.X_OK)), None)


def first_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "it said nothing"


# What the machine is.

SMI_FIELDS = ["name", "driver_version", "memory.total", "memory.used", "compute_cap", "clocks.max.sm",
              "clocks.max.memory", "power.limit", "pci.bus_id"]


def smi(*arguments, limit=60):
    """What nvidia-smi says, or None."""
    finished = run_program(["nvidia-smi", *arguments], limit, callers_environment())
    return None if finished.why() else finished.output


def gpus(limit=60):
    """A dict of SMI_FIELDS for each GPU; none where there is no nvidia-smi."""
    text = smi(f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader,nounits", limit=limit)
    rows = [[field.strip() for field in line.split(",")] for line in (text or "").splitlines()]
    return [dict(zip(SMI_FIELDS, row)) for row in rows if len(row) == len(SMI_FIELDS)]


def used_by_smi():
    """Bytes of the first GPU, by everybody; None where nobody says."""
    text = smi("--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0", limit=10)
    try:
        return int(first_line(text or "")) << 20
    except ValueError:
        return None


class NvmlMemory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def nvml():
    """The same to the byte and in less than a millisecond, as a function; None without NVML."""
    try:
        library = ctypes.CDLL(os.environ.get("BRIM_NVML", "libnvidia-ml.so.1"))
        handle, memory = ctypes.c_void_p(), NvmlMemory()
        if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)):
            return None
    except (OSError, AttributeError):
        return None
    ask = library.nvmlDeviceGetMemoryInfo
    return lambda: None if ask(handle, ctypes.byref(memory)) else memory.used


class MemoryWatch:
    """Asks the driver again and again while a program runs, from outside. Not beside one that is timed."""

    def __init__(self):
        self.exact = nvml()
        self.used = self.exact or used_by_smi

    def __enter__(self):
        self.before, self.most, self.asked = self.used(), None, 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def look(self):
        while not self.done.wait(0.01 if self.exact else 0.1):
            used = self.used()
            self.asked += 1
            if used is not None:
                self.most = max(used, self.most or 0)

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        # The driver takes a moment to clear up behind a program.
        for _ in range(20):
            self.after = self.used()
            if self.after is None or self.before is None or self.after <= self.before:
                break
            time.sleep(0.1)

    def facts(self):
        """`process_bytes`: what came on top of what others held before."""
        known = self.before is not None and self.most is not None
        return {"by": "NVML" if self.exact else "nvidia-smi", "before_bytes": self.before, "most_bytes": self.most,
                "after_bytes": self.after, "asked": self.asked,
                "process_bytes": self.most - self.before if known else None}


VERSIONS = r"""
import ctypes, json
def version(file, function, by_pointer=False):
    try:
        call = getattr(ctypes.CDLL(file), function)
        if by_pointer:
            number = ctypes.c_int()
            call(ctypes.byref(number))
            return number.value
        call.restype = ctypes.c_size_t
        return call()
    except (OSError, AttributeError):
        return None
found = {"cuda_of_driver": version("libcuda.so.1", "cuDriverGetVersion", True),
         "cudnn": version("libcudnn.so.9", "cudnnGetVersion")}
for major in "13", "12":
    found["cublaslt"] = found.get("cublaslt") or version("libcublasLt.so." + major, "cublasLtGetVersion")
print(json.dumps(found))
"""


def library_versions(limit):
    finished = run_program([sys.executable, "-c", VERSIONS], limit)
    try:
        return json.loads(finished.output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return {"why": finished.why() or first_line(finished.output)}


def packed():
    """What `pack` wrote down of itself, where it did."""
    path = os.path.join(HERE, "packed.txt")
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return dict(line.rstrip("\n").split(" ", 1) for line in file if " " in line)


def describe_machine(deadline):
    def left():
        return max(deadline - time.monotonic(), 1)
    facts = {"gpus": gpus(left()), **library_versions(left()), "library_path": os.environ.get("BRIM_LIBRARY_PATH", ""),
             "packed": packed(),
             "libc": os.confstr("CS_GNU_LIBC_VERSION"), "cores": os.cpu_count()}
    header = smi(limit=left()) or ""
    cuda = re.search(r"CUDA Version: *([0-9.]+)", header)
    return {**facts, "cuda": cuda.group(1) if cuda else None}
