"""Libraries that the system's package manager installs."""

_SYSTEM_INCLUDES = [
    "/usr/include",
    "/usr/include/x86_64-linux-gnu",
    "/usr/include/aarch64-linux-gnu",
]

# The compiler searches _SYSTEM_INCLUDES by itself.
_BUILD = """\
cc_library(
    name = "{name}",
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

def _system_library_impl(ctx):
    for folder in _SYSTEM_INCLUDES:
        if ctx.path(folder + "/" + ctx.attr.header).exists:
            ctx.file("BUILD", _BUILD.format(
                name = ctx.name,
                linkopts = repr(ctx.attr.linkopts),
            ))
            return
    fail("{name}: header <{header}> is missing; run ./setup.sh, or: apt-get install {package}".format(
        name = ctx.name,
        header = ctx.attr.header,
        package = ctx.attr.package,
    ))

system_library = repository_rule(
    doc = "@<name>//:<name> is a library of the system, or an error that says what to install.",
    implementation = _system_library_impl,
    attrs = {
        "header": attr.string(mandatory = True, doc = "a header to look for, as it is included"),
        "linkopts": attr.string_list(),
        "package": attr.string(mandatory = True, doc = "the Debian package that has it"),
    },
    local = True,  # looks again whenever Bazel's server starts: it costs nothing
)
