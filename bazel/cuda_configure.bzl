"""The CUDA toolkit, where there is one; everything builds without it too."""

_BUILD = """\
package(default_visibility = ["//visibility:public"])

exports_files(["cuda.bzl"])

# Static, so that a program starts on a machine that has no toolkit.
cc_library(
    name = "runtime",
    srcs = glob(["lib/libcudart_static.a"]),
    hdrs = glob(["include/*.h", "include/*.hpp", "include/crt/*"]),
    includes = ["include"] if glob(["include/*.h"]) else [],
    linkopts = {linkopts},
)
"""

_CUDA_BZL = """\
CUDA_FOUND = {found}
CUDA_ROOT = "{root}"
"""

def _candidates(ctx):
    env = ctx.os.environ
    roots = [env[key] for key in ["CUDA_HOME", "CUDA_PATH"] if env.get(key)]
    nvcc = ctx.which("nvcc")
    if nvcc:
        roots.append(str(nvcc.realpath.dirname.dirname))
    return roots + ["/usr/local/cuda"]

def _library_folder(ctx, root):
    """The folder of the static runtime, or None where this is no whole toolkit."""
    for name in ["bin/nvcc", "include/cuda_runtime_api.h"]:
        if not ctx.path(root + "/" + name).exists:
            return None
    for name in ["lib64", "lib"]:
        if ctx.path(root + "/" + name + "/libcudart_static.a").exists:
            return root + "/" + name
    return None

def _cuda_configure_impl(ctx):
    setting = ctx.os.environ.get("BRIM_CUDA", "auto")
    if setting not in ["auto", "off", "on"]:
        fail("BRIM_CUDA: expected auto, on or off, got " + setting)
    found = None
    if setting != "off":
        for root in _candidates(ctx):
            folder = _library_folder(ctx, root)
            if folder:
                found = root
                ctx.symlink(root + "/include", "include")
                ctx.symlink(folder, "lib")
                break
    if setting == "on" and not found:
        fail("BRIM_CUDA=on: no CUDA toolkit in CUDA_HOME, CUDA_PATH, PATH or /usr/local/cuda")
    ctx.file("cuda.bzl", _CUDA_BZL.format(found = bool(found), root = found or ""))
    ctx.file("BUILD", _BUILD.format(
        linkopts = ["-ldl", "-lrt", "-lpthread"] if found else [],
    ))

cuda_configure = repository_rule(
    doc = """Finds the CUDA toolkit: $CUDA_HOME, $CUDA_PATH, nvcc on PATH, /usr/local/cuda.

@cuda//:cuda.bzl has CUDA_FOUND and CUDA_ROOT; @cuda//:runtime is the static runtime, or
an empty library. BRIM_CUDA=off builds as if there were none; BRIM_CUDA=on insists on one.""",
    implementation = _cuda_configure_impl,
    environ = ["BRIM_CUDA", "CUDA_HOME", "CUDA_PATH", "PATH"],
    local = True,
)
