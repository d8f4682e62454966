"""A header that is parsed once for all the sources that start with it."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    # g++ takes <name>.h.gch in the folder where it finds <name>.h, if it was made with the same
    # options, and else the header itself: so both are here, and -Winvalid-pch tells.
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    precompiled = ctx.actions.declare_file(ctx.label.name + ".h.gch")
    ctx.actions.symlink(output = header, target_file = ctx.file.header)

    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    headers = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = header.path,
        output_file = precompiled.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.attr.copts,
        include_directories = headers.includes,
        quote_include_directories = headers.quote_includes,
        system_include_directories = headers.system_includes,
        preprocessor_defines = headers.defines,
        use_pic = True,
    )
    options = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = CPP_COMPILE_ACTION_NAME,
        variables = variables,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        ),
        arguments = ["-x", "c++-header"] + options,
        inputs = depset(
            [header, ctx.file.header],
            transitive = [toolchain.all_files, headers.headers],
        ),
        outputs = [precompiled],
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling " + ctx.file.header.short_path,
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin"},
    )
    return [CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset([header, precompiled]),
        system_includes = depset([header.dirname]),
    ))]

precompiled_header = rule(
    doc = "For deps of sources that are compiled with these copts and with -include<name>.h.",
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(doc = "of the sources: the same, or g++ takes the header"),
        "deps": attr.label_list(providers = [CcInfo], doc = "what the header includes"),
        "header": attr.label(mandatory = True, allow_single_file = [".h"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
