"""What compiles the folders called cuda/: with nvcc where there is a toolkit."""

load("@cuda//:cuda.bzl", "CUDA_FOUND", "CUDA_INCLUDES", "CUDA_ROOT")

# Machine code for the one, and portable code (PTX) that the driver compiles for every other GPU that
# CUDA 13 knows: each further architecture costs a compiler run per file. BRIM_GPU_CODE names those
# that there is machine code for.
_ONE_ARCHITECTURE = [
    "-gencode=arch=compute_90,code=sm_90",
    "-gencode=arch=compute_75,code=compute_75",
    "-DBRIM_GPU_CODE=90",
]

# With --config=all_gpus: from Turing to Blackwell, and portable code for what comes.
_EACH = ["75", "80", "86", "89", "90", "100", "120"]
_ALL_ARCHITECTURES = [
    "-gencode=arch=compute_%s,code=sm_%s" % (number, number)
    for number in _EACH
] + [
    "-gencode=arch=compute_120,code=compute_120",
    # A comma by itself would begin another macro.
    "-DBRIM_GPU_CODE=" + "\\,".join(_EACH),
]

def _architectures(ctx):
    wanted = ctx.var.get("brim_gpus", "one")
    if wanted not in ["one", "all"]:
        fail("--define=brim_gpus: expected one or all, got " + wanted)
    return _ALL_ARCHITECTURES if wanted == "all" else _ONE_ARCHITECTURE

def _cuda_objects_impl(ctx):
    headers = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    host = ["-fPIC"] + ctx.attr.copts + ctx.fragments.cpp.copts
    host = [option for option in host if not option.startswith("-std=")]
    objects, resources = [], []
    for source in ctx.files.srcs:
        # Of every folder one library: stems are unique but for the extension.
        name = source.basename.replace(".", "_") + ".pic.o"
        compiled = ctx.actions.declare_file("_objs/%s/%s" % (ctx.label.name, name))
        used = ctx.actions.declare_file("_objs/%s/%s.resources" % (ctx.label.name, name))
        args = ctx.actions.args()
        args.add_all([used, ctx.file._ptx_table, CUDA_ROOT + "/bin/nvcc"])
        args.add_all(["-std=c++20", "-ccbin=g++", "-c", source, "-o", compiled])
        args.add_all(["-O0", "-g"] if ctx.var["COMPILATION_MODE"] == "dbg" else ["-O3"])
        args.add_all(_architectures(ctx))

        # A seventh of the bytes, which the driver unpacks as it loads a kernel.
        args.add("--compress-mode=size")

        # As on the host: constexpr functions run there, and nothing is contracted.
        args.add_all(["--expt-relaxed-constexpr", "--fmad=false"])
        if "-Werror" in host:
            args.add("-Werror=all-warnings")

        # fmt would do without constexpr under nvcc, and then not compile as C++20.
        args.add("-DFMT_USE_CONSTEXPR=1")
        args.add_joined(host, join_with = ",", format_joined = "-Xcompiler=%s")
        args.add_all(headers.defines, before_each = "-D")
        args.add_all(headers.quote_includes, before_each = "-I")
        args.add_all(headers.includes, before_each = "-I")
        args.add_all(headers.system_includes, before_each = "-isystem")
        args.add_all(CUDA_INCLUDES, before_each = "-isystem")
        ctx.actions.run(
            executable = ctx.executable._nvcc,
            arguments = [args],
            inputs = depset([source, ctx.file._ptx_table] + ctx.files._toolkit, transitive = [headers.headers]),
            outputs = [compiled, used],
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s with nvcc" % source.short_path,
            env = {"PATH": "/usr/local/bin:/usr/bin:/bin"},
        )
        objects.append(compiled)
        resources.append(used)
    return [
        DefaultInfo(files = depset(objects)),
        OutputGroupInfo(resources = depset(resources)),
    ]

_cuda_objects = rule(
    doc = "Objects of .cu and .cc files, compiled by nvcc; what is not CUDA it hands to g++.",
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu", ".cc"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "copts": attr.string_list(doc = "of the host's compiler"),
        # Headers that tell one toolkit from the next.
        "_toolkit": attr.label(default = "@cuda//:toolkit"),
        "_ptx_table": attr.label(default = "//bazel:ptx_table.awk", allow_single_file = True),
        "_nvcc": attr.label(
            default = "//bazel:nvcc.sh",
            allow_single_file = True,
            executable = True,
            cfg = "host",
        ),
    },
    fragments = ["cpp"],
)

_EMULATOR = "//tests/support/cuda_emulator"

def _link_only_impl(ctx):
    infos = [dep[CcInfo] for dep in ctx.attr.deps]
    return [CcInfo(linking_context = cc_common.merge_cc_infos(cc_infos = infos).linking_context)]

_link_only = rule(
    doc = "What is linked of its deps, without their headers: who includes none is not compiled anew.",
    implementation = _link_only_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

def _headers_alone_impl(ctx):
    infos = [dep[CcInfo] for dep in ctx.attr.deps]
    merged = cc_common.merge_cc_infos(cc_infos = infos)
    return [CcInfo(compilation_context = merged.compilation_context)]

headers_alone = rule(
    doc = "Headers of deps, and nothing to link: for kernels in the emulator beside none of a GPU.",
    implementation = _headers_alone_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

def _as_plain_cpp(sources):
    """For each .cu file a .cc that includes it, for the host's compiler."""
    for source in sources:
        native.genrule(
            name = "_plain_" + source,
            outs = [source + ".cc"],
            cmd = "echo '#include \"%s/%s\"' >$@" % (native.package_name(), source),
            tags = ["manual"],
        )
    return [source + ".cc" for source in sources]

def kernel_table(name, libraries, script, **kwargs):
    """<name>.txt: what becomes of every kernel of these cuda_libraries, by name.

    Registers and spilled bytes, or loads and stores, as `script` has it.

    Args:
      name: of the target.
      libraries: labels, "//ops/cuda".
      script: that writes it, of what bazel/nvcc.sh has written.
      **kwargs: of both.
    """
    files = [label + ":" + label.split("/")[-1] + "_resources" for label in libraries]
    native.genrule(
        name = name,
        srcs = files,
        outs = [name + ".txt"],
        cmd = "$(location %s) $(SRCS) >$@" % script,
        tools = [script],
        **kwargs
    )

def cuda_library(name, copts, deps, include_prefix, visibility, libraries = []):
    """A folder cuda/ as a library.

    With a toolkit it is the .cu and .cc files, compiled by nvcc; else, and in builds with
    --define=brim_cuda=off, none.cc alone, which stands in for them. With
    --define=brim_cuda=emulated the host's compiler compiles the .cu and .cc files for the emulator
    (tests/support/cuda_emulator), but for those that call NVIDIA's libraries: no_libraries.cc
    stands in for these, where there is one. Headers *.h are for everyone and name no type of
    CUDA's; *.cuh are for other folders cuda/.

    Args:
      name: the folder's name; name + "_headers" has its *.h and *.cuh.
      copts: of the host's compiler.
      deps: libraries; of those that are cuda_libraries, give also the headers.
      include_prefix: the folder, as it is included.
      visibility: of the library and its headers.
      libraries: the .cc files that call NVIDIA's libraries.
    """
    stand_ins = ["none.cc", "no_libraries.cc"]
    headers = name + "_headers"
    kernels = native.glob(["*.cu"])
    native.cc_library(
        name = headers,
        hdrs = native.glob(["*.h", "*.cuh"]),
        include_prefix = include_prefix,
        visibility = visibility,
        deps = deps,
    )
    native.cc_library(
        name = name + "_plain",
        srcs = native.glob(["*.cc"], exclude = ["none.cc"] + libraries) + _as_plain_cpp(kernels),
        textual_hdrs = kernels,
        copts = copts + ["-includebrim/%s/device_code.h" % _EMULATOR[2:]],
        tags = ["manual"],
        deps = deps + [headers, _EMULATOR],
    )
    _link_only(
        name = name + "_emulated",
        tags = ["manual"],
        deps = [name + "_plain"],
    )
    with_toolkit = ["none.cc"]
    if CUDA_FOUND:
        with_toolkit = [name + "_objects"]
        _cuda_objects(
            name = name + "_objects",
            srcs = native.glob(["*.cu", "*.cc"], exclude = stand_ins),
            copts = copts,
            tags = ["manual"],  # not by //...: builds without CUDA do without them
            deps = [headers],
        )
        native.filegroup(
            name = name + "_resources",
            srcs = [name + "_objects"],
            output_group = "resources",
            tags = ["manual"],
            visibility = ["//tests:__subpackages__"],
        )
    native.cc_library(
        name = name,
        srcs = select({
            "//bazel:without_cuda": ["none.cc"],
            "//bazel:emulated_cuda": [],
            "//conditions:default": with_toolkit,
        }),
        hdrs = native.glob(["*.h"]),
        copts = copts,
        include_prefix = include_prefix,
        # The static runtime hides its symbols: what calls it is linked beside it, into the program
        # and not into a library of its own.
        linkstatic = True,
        visibility = visibility,
        deps = deps + select({
            "//bazel:emulated_cuda": [name + "_emulated", "@cuda//:no_runtime"],
            "//conditions:default": ["@cuda//:runtime"],
        }),
    )
