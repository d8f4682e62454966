"""The macros of brim's BUILD files.

A folder is one library and globs its files: who adds a file edits no BUILD.
"""

load("@cuda//:cuda.bzl", "CUDA_FOUND", "CUDA_INCLUDES")
load("//bazel:cuda.bzl", "cuda_library")
load("//bazel:isolated_object.bzl", "isolated_object")
load("//bazel:precompiled_header.bzl", "precompiled_header")

# Here and not in .bazelrc, so that they also hold where brim is built from another
# workspace. No contraction: the same expression has the same bits wherever it is inlined;
# kernels write std::fma where they want one. A designated initialiser that leaves options
# at their defaults is how brim is used, and g++ 12 warns of it.
_COPTS = [
    "-std=c++20",
    "-Wall",
    "-Wextra",
    "-Wno-missing-field-initializers",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fopenmp",
    "-march=x86-64-v3",  # AVX2 and FMA
]
_LINKOPTS = ["-fopenmp"]

# What is tested has all its optimisations. The tests themselves take as long to compile as all of
# that, and do little.
_TEST_OPTIMISATION = select({
    "//bazel:optimized": ["-O1"],
    "//conditions:default": ["-O0"],
})

# g++ 12 sees an overlap in std::string's operator+ at -O3 (GCC bug 105651).
_KERNEL_OPTIMISATION = select({
    "//bazel:optimized": ["-O3", "-Wno-restrict"],
    "//conditions:default": [],
})

def _begins_with(precompiled_header):
    """Flags of a source that begins with what is parsed once for all of them (brim_preludes)."""
    return [
        "-include%s.h" % precompiled_header,
        "-Winvalid-pch",
        # g++ 12 forgets what pragmas in precompiled headers say of warnings.
        "-Wno-array-bounds",
        "-Wno-stringop-overflow",
    ]

def _beginning(name, for_x86_64_v4 = None, copts = []):
    """copts and deps of sources that begin with the prelude of this name.

    Args:
      name: of brim_preludes.
      for_x86_64_v4: its name where kernels are compiled for x86-64-v4 alone, if that is another.
      copts: further ones.
    Returns:
      a struct.
    """
    for_x86_64_v4 = for_x86_64_v4 or name
    return struct(
        copts = copts + select({
            "//bazel:no_prelude": [],
            "//bazel:x86_64_v4_only": _begins_with(for_x86_64_v4),
            "//conditions:default": _begins_with(name),
        }),
        deps = select({
            "//bazel:no_prelude": [],
            "//bazel:x86_64_v4_only": ["//bazel:" + for_x86_64_v4],
            "//conditions:default": ["//bazel:" + name],
        }),
    )

_OF_LIBRARIES = _beginning("prelude")
_OF_KERNELS = _beginning("kernel_prelude", for_x86_64_v4 = "kernel_prelude_x86_64_v4")
_OF_KERNELS_FOR_X86_64_V4 = _beginning("kernel_prelude_x86_64_v4")
_OF_PROGRAMS = _beginning("program_prelude")
_OF_TESTS = _beginning("test_prelude", copts = _TEST_OPTIMISATION)

def _beside(kernels = None):
    if native.package_name() in ["apps", "examples", "bench"]:
        return _OF_PROGRAMS
    return _OF_KERNELS if kernels else _OF_LIBRARIES

# Wide vectors too: the default of -march=x86-64-v4 is for processors that clock down.
_FOR_X86_64_V4 = ["-march=x86-64-v4", "-mprefer-vector-width=512"]

# Of the source that knows which instruction sets there are.
INSTRUCTION_COPTS = select({
    "//bazel:baseline_only": ["-DBRIM_X86_64_V3"],
    "//bazel:x86_64_v4_only": ["-DBRIM_X86_64_V4"],
    "//conditions:default": ["-DBRIM_X86_64_V3", "-DBRIM_X86_64_V4"],
})

# The design's order: a folder may use only folders above it.
_LAYERS = [
    "base",
    "memory",
    "core",
    "io",
    "autograd",
    "ops",
    "nn",
    "optim",
    "data",
    "shrink",
    "train",
    "budget",
]

_USERS = ["apps", "examples", "tests", "bench", "docs"]

def _visible_below(package):
    layer = package.split("/")[0]
    if layer in _LAYERS:
        below = _LAYERS[_LAYERS.index(layer) + 1:]
    else:
        below = []

    # __subpackages__ of its own layer: base/cuda is a package of base.
    return ["//:__pkg__"] + ["//%s:__subpackages__" % name for name in [layer] + below + _USERS]

def _file_lists(internal):
    """:public_headers, what programs may include, and :sources, all there is."""
    native.filegroup(
        name = "public_headers",
        srcs = native.glob(
            ["**/*.h"],
            exclude = ["cpu/**", "cuda/**"] + internal,
        ),
        visibility = ["//:__pkg__"],
    )
    native.filegroup(
        name = "sources",
        srcs = native.glob(["**/*.h", "**/*.cc", "**/*.cu", "**/*.cuh"], allow_empty = True),
        visibility = ["//:__pkg__", "//tests:__subpackages__"],
    )

def _mangled(namespace, function):
    return "_ZN4brim%d%s%d%sEv" % (len(namespace), namespace, len(function), function)

def _kernels_for_x86_64_v4(name, function, copts, hdrs, deps):
    """cpu/ compiled once more; of the object brim::cpu_x86_64_v4::<function> can be called."""
    native.cc_library(
        name = name + "_headers",
        hdrs = hdrs,
        include_prefix = "brim/" + native.package_name(),
        deps = deps,
    )
    native.cc_library(
        name = name + "_kernels",
        srcs = native.glob(["cpu/**/*.cc"]),
        copts = _COPTS + copts + _OF_KERNELS_FOR_X86_64_V4.copts + _FOR_X86_64_V4,
        tags = ["manual"],
        deps = [name + "_headers"] + _OF_KERNELS_FOR_X86_64_V4.deps,
    )
    isolated_object(
        name = name,
        entry = _mangled("cpu", function),
        library = name + "_kernels",
        new_entry = _mangled("cpu_x86_64_v4", function),
        shared = ["_ZN4brim15NoParallelScope10forbidden_E"],
        tags = ["manual"],
    )

    # Where only one set is compiled, cpu/ itself is for that: nobody calls this, or it enters that.
    for only, result in [("_none", "false"), ("_same", "cpu::%s()" % function)]:
        native.genrule(
            name = name + only,
            outs = [name + only + ".cc"],
            cmd = ("echo 'namespace brim { namespace cpu { bool {f}(); } " +
                   "namespace cpu_x86_64_v4 { bool {f}() { return {r}; } } }' >$@")
                .replace("{f}", function).replace("{r}", result),
            tags = ["manual"],
        )

def brim_library(name, kernels = None, internal = [], **kwargs):
    """One folder as a library: its headers are included as "brim/<folder>/x.h".

    Subfolders (memory/plan, ops/cpu) belong to it unless they have a BUILD of their own.
    Visible only to the folders below it, to programs, tests, benchmarks and docs.

    Args:
      name: the folder's name.
      kernels: the function in brim::cpu that enters the kernels of cpu/ into the table. Their
        loops get the compiler's most, and they are compiled for each instruction set.
      internal: headers, beside those in cpu/ and cuda/, that programs may not include: they
        are not installed, and no public header includes them. Other folders may include those
        of io/ and of cuda/ alone (//tests/layers).
      **kwargs: of cc_library; srcs and hdrs replace the globs, visibility the layering.
    """
    copts = kwargs.pop("copts", [])
    if kernels:
        copts = copts + _KERNEL_OPTIMISATION
    kwargs.setdefault("srcs", native.glob(["**/*.cc"]))
    kwargs.setdefault("hdrs", native.glob(["**/*.h"]))
    kwargs.setdefault("visibility", _visible_below(native.package_name()))
    folder = native.package_name().split("/")
    if folder[0] in _LAYERS and folder[-1] == name:
        _file_lists(internal)
    if kernels:
        x86_64_v4 = name + "_x86_64_v4"
        _kernels_for_x86_64_v4(x86_64_v4, kernels, copts, kwargs["hdrs"], kwargs["deps"])
        kwargs["srcs"] = kwargs["srcs"] + select({
            "//bazel:baseline_only": [x86_64_v4 + "_none.cc"],
            "//bazel:x86_64_v4_only": [x86_64_v4 + "_same.cc"],
            "//conditions:default": [x86_64_v4],
        })
        copts = copts + select({
            "//bazel:x86_64_v4_only": _FOR_X86_64_V4,
            "//conditions:default": [],
        })
    beside = _OF_TESTS if folder[0] == "tests" else _beside(kernels)
    native.cc_library(
        name = name,
        copts = _COPTS + beside.copts + copts,
        include_prefix = "brim/" + native.package_name(),
        linkopts = kwargs.pop("linkopts", []) + _LINKOPTS,
        deps = beside.deps + kwargs.pop("deps", []),
        **kwargs
    )

def brim_cuda_library(name, deps, public = [], libraries = []):
    """The folder cuda/ of a layer: compiled by nvcc where there is a toolkit, see cuda_library.

    Args:
      name: cuda, the folder's name.
      deps: as of brim_library; of those that are folders cuda/, with their headers.
      public: headers that programs may include.
      libraries: the .cc files that call NVIDIA's libraries.
    """
    _file_lists(internal = native.glob(["*.h"], exclude = public))
    cuda_library(
        name = name,
        copts = _COPTS,
        include_prefix = "brim/" + native.package_name(),
        visibility = _visible_below(native.package_name()),
        deps = deps,
        libraries = libraries,
    )

def brim_binary(name, **kwargs):
    """A program, with brim linked into it.

    Args:
      name: also its source, name + ".cc", unless srcs says otherwise.
      **kwargs: of cc_binary.
    """
    kwargs.setdefault("srcs", [name + ".cc"])
    beside = _beside()
    native.cc_binary(
        name = name,
        copts = _COPTS + beside.copts + kwargs.pop("copts", []),
        deps = beside.deps + kwargs.pop("deps", []),
        **kwargs
    )

def brim_preludes():
    """What nearly every source begins with, parsed once: two fifths of the time that one takes.

    One for each level of optimisation: g++ keeps that in the precompiled header, and has taken
    another for the same, without a word.

    With --define=brim_prelude=none each file has to include what it uses to compile.
    """
    for name, header, copts, deps in [
        ("prelude", "prelude.h", [], []),
        ("kernel_prelude", "prelude.h", _KERNEL_OPTIMISATION, []),
        ("kernel_prelude_x86_64_v4", "prelude.h", _KERNEL_OPTIMISATION + _FOR_X86_64_V4, []),
        ("program_prelude", "program_prelude.h", [], ["//:brim", "@nlohmann_json"]),
        ("test_prelude", "prelude.h", _TEST_OPTIMISATION, []),
    ]:
        precompiled_header(
            name = name,
            copts = _COPTS + copts,
            header = header,
            tags = ["manual"],
            visibility = ["//visibility:public"],
            deps = deps,
        )

def _link_to_program(ctx):
    link = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = link, target_file = ctx.executable.program, is_executable = True)
    return DefaultInfo(
        executable = link,
        files = depset([link]),
        runfiles = ctx.attr.program[DefaultInfo].default_runfiles,
    )

link_to_program = rule(
    implementation = _link_to_program,
    doc = "A program under another name, or in another folder: a symbolic link.",
    attrs = {"program": attr.label(cfg = "target", executable = True, mandatory = True)},
    executable = True,
)

def brim_test(name, main = "//tests/support:doctest_main", **kwargs):
    """A doctest program, linked dynamically: the libraries are not copied into each test.

    Tags that mean something: `threads` (runs under --config=tsan, and must stay out of
    OpenMP), `no_asan` (not under asan and sanitize), `plain` (under no sanitizer), `programs` (of
    what is in apps/: not under sanitize), `gpu` (uses a GPU where there is one: runs under
    --config=gpu, and is a part of //tests/gpu, which bench/gpu.sh packs).

    Args:
      name: also its source, name + ".cc", unless srcs says otherwise.
      main: the library that has main(), or None where the test's source has it.
      **kwargs: of cc_test.
    """
    copts = kwargs.pop("copts", [])
    kwargs.setdefault("srcs", [name + ".cc"])
    kwargs.setdefault("size", "medium")
    native.cc_test(
        name = name,
        copts = _COPTS + _OF_TESTS.copts + copts,
        deps = _OF_TESTS.deps + kwargs.pop("deps", []) + ([main] if main else []),
        **kwargs
    )

def _gpu_cases(name, copts, deps):
    """The cases of one test by themselves: its own program and //tests/gpu have them."""
    native.cc_library(
        name = name,
        testonly = True,
        srcs = [name[:-len("_cases")] + ".cc"],
        alwayslink = True,
        copts = _COPTS + _OF_TESTS.copts + copts,
        linkstatic = True,
        deps = _OF_TESTS.deps + deps,
    )

def brim_tests(deps, tags = {}, common_tags = [], sizes = {}, copts = [], **kwargs):
    """One brim_test for each *_test.cc of the folder.

    The cases of those that use a GPU are gpu_cases too, without `data`: //tests/gpu has all in one program.

    Args:
      deps: of every test.
      tags: lists of tags by test name, see brim_test.
      common_tags: of every test.
      sizes: sizes by test name; medium (five minutes) where none is given.
      copts: of every test.
      **kwargs: of every test.
    """
    names = [source[:-len(".cc")] for source in native.glob(["*_test.cc"])]
    for name in tags.keys() + sizes.keys():
        if name not in names:
            fail("//%s: no test is called %s" % (native.package_name(), name))
    cases = []
    for name in names:
        its_tags = tags.get(name, []) + common_tags
        its = struct(srcs = [name + ".cc"], deps = deps, copts = copts)
        if "gpu" in its_tags:
            cases.append(name + "_cases")
            _gpu_cases(cases[-1], copts, deps)
            its = struct(srcs = [], deps = [":" + cases[-1]], copts = [])
        brim_test(
            name = name,
            srcs = its.srcs,
            size = sizes.get(name, "medium"),
            copts = its.copts,
            tags = its_tags,
            deps = its.deps,
            **kwargs
        )
    if cases:
        native.cc_library(
            name = "gpu_cases",
            testonly = True,
            visibility = ["//tests/gpu:__pkg__"],
            deps = cases,
        )

def brim_cuda_tests(deps):
    """brim_tests of what only a build with the CUDA toolkit has; the sanitizers' are without.

    Args:
      deps: of every test.
    """
    if CUDA_FOUND:
        brim_tests(
            deps = deps,
            common_tags = ["gpu", "plain"],
            copts = ["-isystem" + folder for folder in CUDA_INCLUDES],
        )

def brim_fuzz_targets(deps, more_deps = {}):
    """For each *_fuzz.cc, which defines LLVMFuzzerTestOneInput, a fuzzer and a test.

    <name> is the fuzzer and builds only with --config=fuzz. <name>_replay runs the inputs
    kept in corpus/<name without _fuzz>/ in every ordinary test run.

    Args:
      deps: of every target.
      more_deps: lists of more of them by fuzzer name, for what takes long to build.
    """
    for source in native.glob(["*_fuzz.cc"]):
        name = source[:-len(".cc")]
        all_deps = deps + more_deps.get(name, [])
        corpus = "corpus/" + name[:-len("_fuzz")]
        brim_binary(
            name = name,
            testonly = True,
            linkopts = ["-fsanitize=fuzzer"],
            tags = ["manual"],
            deps = all_deps,
        )
        brim_test(
            name = name + "_replay",
            srcs = [source],
            args = [native.package_name() + "/" + corpus],
            data = native.glob([corpus + "/**"]),
            main = "//tests/support:fuzz_replay_main",
            deps = all_deps,
        )
