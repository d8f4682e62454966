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

def _version(ctx, folder):
    """[major, minor] as the library's header defines them."""
    numbers = []
    text = ctx.read(folder + "/" + ctx.attr.version_header)
    for part in ["MAJOR", "MINOR"]:
        define = "#define %s_%s " % (ctx.attr.version_prefix, part)
        if define not in text:
            fail("%s: <%s> does not define %s" % (ctx.name, ctx.attr.version_header, define))
        numbers.append(int(text.split(define)[1].split("\n")[0].strip()))
    return numbers

def _said(version):
    return ".".join([str(number) for number in version])

def _check_version(ctx, folder):
    found, oldest, newest = _version(ctx, folder), ctx.attr.oldest, ctx.attr.newest
    what = "%s: version %s (%s)" % (ctx.name, _said(found), ctx.attr.package)
    if found < oldest:
        fail("%s is too old: brim needs %s or newer" % (what, _said(oldest)))
    if found[0] > newest[0]:
        fail("%s is too new: brim was tried with versions up to %s" % (what, _said(newest)))
    if found > newest:
        # buildifier: disable=print
        print("%s is newer than %s, the newest that brim was tried with" % (what, _said(newest)))

def _system_library_impl(ctx):
    for folder in _SYSTEM_INCLUDES:
        if ctx.path(folder + "/" + ctx.attr.header).exists:
            if ctx.attr.version_header:
                _check_version(ctx, folder)
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
        "newest": attr.int_list(doc = "[major, minor] of the newest that was tried: others of its " +
                                      "major version are taken with a word, later ones refused"),
        "oldest": attr.int_list(doc = "[major, minor] of the oldest that will do"),
        "package": attr.string(mandatory = True, doc = "the Debian package that has it"),
        "version_header": attr.string(doc = "the header with the version, where it matters"),
        "version_prefix": attr.string(doc = "it defines the macros <prefix>_MAJOR and <prefix>_MINOR"),
    },
    local = True,  # looks again whenever Bazel's server starts: it costs nothing
)
