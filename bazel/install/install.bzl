"""What `bazel run //:install` puts into a prefix: one archive, one shared library, headers."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# Major.minor.patch. Before 1.0 a new minor version may break programs, so both are in the soname.
BRIM_VERSION = "0.2.0"
BRIM_SONAME = "libbrim.so." + BRIM_VERSION.rpartition(".")[0]

def _is_own(linker_input):
    # Other libraries come through the workspace's repositories; brim may be one itself.
    return linker_input.owner.workspace_name in ["", "brim"]

def _archives(linker_inputs):
    found = []
    for linker_input in linker_inputs:
        for library in linker_input.libraries:
            archive = library.pic_static_library or library.static_library
            if archive and archive not in found:
                found.append(archive)
    return found

def _merge(ctx, archives, out):
    """An archive of all members of these."""
    script = ctx.actions.declare_file(out.basename + ".mri")
    ctx.actions.write(script, "\n".join(
        ["CREATE " + out.path] + ["ADDLIB " + a.path for a in archives] + ["SAVE", "END", ""],
    ))
    ctx.actions.run_shell(
        inputs = archives + [script],
        outputs = [out],
        # D: the time is left out, so that the same sources give the same bytes.
        command = "ar -M <%s && ranlib -D %s" % (script.path, out.path),
        mnemonic = "MergeArchives",
    )

def _merged_library_impl(ctx):
    inputs = depset(transitive = [
        dep[CcInfo].linking_context.linker_inputs
        for dep in ctx.attr.deps
    ]).to_list()
    left_out = depset(transitive = [
        dep[CcInfo].linking_context.linker_inputs
        for dep in ctx.attr.without
    ]).to_list()
    without = _archives(left_out)
    own = [a for a in _archives([i for i in inputs if _is_own(i)]) if a not in without]
    others = [i for i in inputs if not _is_own(i)]
    foreign = [a for a in _archives(others) if a not in without]

    complete = ctx.actions.declare_file(ctx.attr.archive)
    _merge(ctx, own + foreign, complete)
    flags = []
    for linker_input in inputs:
        for flag in linker_input.user_link_flags:
            if flag not in flags:
                flags.append(flag)
    flag_list = ctx.actions.declare_file(ctx.label.name + ".flags")
    ctx.actions.write(flag_list, "".join([flag + "\n" for flag in flags]))

    # To link a shared library: all of brim's own members, of others those that are needed.
    whole = ctx.actions.declare_file(ctx.label.name + "_own.a")
    _merge(ctx, own, whole)
    toolchain = find_cpp_toolchain(ctx)
    library = cc_common.create_library_to_link(
        actions = ctx.actions,
        feature_configuration = cc_common.configure_features(
            ctx = ctx,
            cc_toolchain = toolchain,
        ),
        cc_toolchain = toolchain,
        pic_static_library = whole,
        alwayslink = True,
    )
    return [
        DefaultInfo(files = depset([complete]), runfiles = ctx.runfiles([complete])),
        OutputGroupInfo(flags = depset([flag_list])),
        CcInfo(linking_context = cc_common.create_linking_context(linker_inputs = depset(
            [cc_common.create_linker_input(
                owner = ctx.label,
                libraries = depset([library]),
                user_link_flags = depset(flags),
            )],
            # After what uses them.
            transitive = [depset(others, order = "topological")],
            order = "topological",
        ))),
    ]

merged_library = rule(
    doc = """One archive of all archives below `deps`, but for those below `without`.

It holds the archives of other libraries too (CUDA's static runtime); what the linker finds by
itself is listed, one flag a line, in the output group `flags`. As a dependency it stands for the
same code, every object of brim's included.""",
    implementation = _merged_library_impl,
    attrs = {
        "archive": attr.string(mandatory = True, doc = "the file's name"),
        "deps": attr.label_list(providers = [CcInfo]),
        "without": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def _in_repository(file):
    """A source's path from the top of brim, which may be a repository of another workspace."""
    path = file.short_path
    return "/".join(path.split("/")[2:]) if path.startswith("../") else path

def _install_tree_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".tar")
    places = [(f, "include/brim/" + _in_repository(f)) for f in ctx.files.headers]
    for target, place in ctx.attr.files.items():
        places += [(f, place) for f in target.files.to_list()]
    list_of_flags = ctx.attr.library[OutputGroupInfo].flags.to_list()[0]
    copies = ["%s\t%s" % (f.path, place) for f, place in places]
    manifest = ctx.actions.declare_file(ctx.label.name + ".manifest")
    ctx.actions.write(manifest, "\n".join(copies) + "\n")
    ctx.actions.run(
        executable = ctx.executable._pack,
        arguments = [
            manifest.path,
            list_of_flags.path,
            BRIM_VERSION,
            BRIM_SONAME,
            out.path,
        ],
        inputs = [f for f, _ in places] + [manifest, list_of_flags],
        outputs = [out],
        mnemonic = "PackInstallTree",
    )
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles([out]))]

install_tree = rule(
    doc = "A tar file of what goes into a prefix, see pack_install_tree.sh.",
    implementation = _install_tree_impl,
    attrs = {
        "headers": attr.label_list(allow_files = [".h"]),
        "files": attr.label_keyed_string_dict(
            allow_files = True,
            doc = "files and where they go; names ending in .in are filled in",
        ),
        "library": attr.label(doc = "the merged_library whose flags programs link with"),
        "_pack": attr.label(
            default = "//bazel/install:pack_install_tree",
            executable = True,
            cfg = "exec",
        ),
    },
)
