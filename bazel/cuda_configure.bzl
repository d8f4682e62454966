"""The CUDA toolkit, where there is one; everything builds without it too."""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

exports_files(["cuda.bzl"])

# Static, so that a program starts on a machine that has no toolkit.
cc_library(
    name = "runtime",
    srcs = glob(["lib/libcudart_static.a"]),
    linkopts = {linkopts},
)

# In its place where kernels are emulated: all else is compiled by the same commands.
cc_library(name = "no_runtime")

# What differs from one toolkit to the next: bazel/cuda.bzl compiles again when one of them does.
filegroup(
    name = "toolkit",
    srcs = glob(["include/*"]),
)
"""

_CUDA_BZL = """\
CUDA_FOUND = {found}
CUDA_ROOT = "{root}"
CUDA_INCLUDES = {includes}
"""

# The compiler searches them by itself; named again, the first hides the C++ library's own headers.
_SYSTEM_INCLUDES = ["/usr/include", "/usr/include/x86_64-linux-gnu"]

def _candidates(ctx):
    env = ctx.os.environ
    named = [env[key] for key in ["CUDA_HOME", "CUDA_PATH"] if env.get(key)]
    if named:
        return named
    nvcc = ctx.which("nvcc")
    return ([str(nvcc.realpath.dirname.dirname)] if nvcc else []) + ["/usr/local/cuda"]

def _first(ctx, folders, name):
    for folder in folders:
        if ctx.path(folder + "/" + name).exists:
            return folder
    return None

def _toolkit(ctx, root):
    """The toolkit at `root` with what brim needs of it, or a struct with what is missing."""
    if not ctx.path(root + "/bin/nvcc").exists:
        return struct(missing = "bin/nvcc")
    for header in ["cuda.h", "cuda_runtime_api.h", "cublas_api.h", "cublasLt.h"]:
        if not ctx.path(root + "/include/" + header).exists:
            return struct(missing = "include/" + header)
    library = _first(ctx, [root + "/lib64", root + "/lib"], "libcudart_static.a")
    if not library:
        return struct(missing = "lib64/libcudart_static.a")

    # cuDNN comes apart from the toolkit; Debian's packages put it among the system's headers.
    env = ctx.os.environ
    homes = [env[key] + "/include" for key in ["CUDNN_HOME", "CUDNN_PATH"] if env.get(key)]
    cudnn = _first(ctx, homes + [root + "/include"] + _SYSTEM_INCLUDES, "cudnn_graph.h")
    if not cudnn:
        return struct(missing = "include/cudnn_graph.h (cuDNN 9)")
    refused = _refused_program(ctx, root)
    if refused:
        return struct(missing = "nvcc of CUDA 12.8 or later that works with this g++ (%s)" % refused)
    return struct(missing = None, root = root, library = library, cudnn = cudnn)

def _refused_program(ctx, root):
    """What nvcc says against the smallest program, or None: it may be too old, or for g++."""
    ctx.file("probe.cu", "#include <concepts>\n__global__ void probe() {}\n")
    result = ctx.execute([
        root + "/bin/nvcc",
        "-std=c++20",
        "-ccbin=g++",
        "--compress-mode=size",
        "--compile",
        "probe.cu",
        "--output-file=probe.o",
    ])
    if result.return_code == 0:
        return None
    return (result.stderr or result.stdout or "it cannot be run").strip().split("\n")[0]

def _find(ctx):
    """The first whole toolkit, or None; and what the others lack."""
    lacking = []
    for root in _candidates(ctx):
        toolkit = _toolkit(ctx, root)
        if not toolkit.missing:
            return toolkit, lacking
        if ctx.path(root).exists:
            lacking.append("%s has no %s" % (root, toolkit.missing))
    return None, lacking

def _cuda_configure_impl(ctx):
    setting = ctx.os.environ.get("BRIM_CUDA", "auto")
    if setting not in ["auto", "off", "on"]:
        fail("BRIM_CUDA: expected auto, on or off, got " + setting)
    found = None
    if setting != "off":
        found, lacking = _find(ctx)
        if not found and setting == "on":
            fail("BRIM_CUDA=on: no whole CUDA toolkit in CUDA_HOME and CUDA_PATH, or without " +
                 "these on PATH or in /usr/local/cuda%s" % "".join(["; " + text for text in lacking]))

        # A person who has most of one wants to know why brim is built without it.
        if not found and lacking:
            print("CUDA is left out: " + "; ".join(lacking))  # buildifier: disable=print
    if found:
        ctx.symlink(found.library, "lib")
        for name in ["include/cuda.h", "include/cublas_api.h"]:
            ctx.symlink(found.root + "/" + name, name)
        ctx.symlink(found.cudnn + "/cudnn_graph.h", "include/cudnn_graph.h")
    ctx.file("cuda.bzl", _CUDA_BZL.format(
        found = bool(found),
        root = found.root if found else "",
        includes = [
            folder
            for folder in ([found.cudnn] if found else [])
            if folder not in [found.root + "/include"] + _SYSTEM_INCLUDES
        ],
    ))
    ctx.file("BUILD", _BUILD.format(
        linkopts = ["-ldl", "-lrt", "-lpthread"] if found else [],
    ))

cuda_configure = repository_rule(
    doc = """Finds the CUDA toolkit: $CUDA_HOME, $CUDA_PATH; else nvcc on PATH, /usr/local/cuda.

It counts only where it is whole: an nvcc that compiles, the static runtime, and the headers of
cuBLASLt and cuDNN.
@cuda//:cuda.bzl has CUDA_FOUND and CUDA_ROOT; @cuda//:runtime is the static runtime, or
an empty library. BRIM_CUDA=off builds as if there were none; BRIM_CUDA=on insists on one.""",
    implementation = _cuda_configure_impl,
    environ = ["BRIM_CUDA", "CUDA_HOME", "CUDA_PATH", "CUDNN_HOME", "CUDNN_PATH", "PATH"],
    local = True,
)
