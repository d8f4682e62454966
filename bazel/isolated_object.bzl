"""Code compiled for a processor that not every machine has, kept apart from all other code."""

_COMMANDS = """\
set -euo pipefail
# One object of all members. Without groups: the linker keeps one of all groups of a name, and a
# function of <algorithm> compiled here would serve the whole program.
ld -r --force-group-allocation --whole-archive {archive} -o {out}.all
# Everything but the entry becomes local: references between the members stay as they are.
objcopy {keep} {out}.all {out}.local
objcopy --redefine-sym {entry}={new_entry} {weaken} {out}.local {out}
rm {out}.all {out}.local
shown="$(nm --extern-only --defined-only --format=posix {out} | cut -d' ' -f1 |
  grep -vxF {shared} || true)"
if [[ "$shown" != {new_entry} ]]; then
  echo "{out}: expected the one symbol {new_entry}, got: $shown" >&2
  exit 1
fi
# What runs before main runs on every machine.
if readelf --sections --wide {out} | grep -q '[.]init_array'; then
  echo "{out}: expected no variables that are initialised before main" >&2
  exit 1
fi
"""

def _isolated_object_impl(ctx):
    archives = []
    for linker_input in ctx.attr.library[CcInfo].linking_context.linker_inputs.to_list():
        if linker_input.owner == ctx.attr.library.label:
            for library in linker_input.libraries:
                archives.append(library.pic_static_library or library.static_library)
    if len(archives) != 1:
        fail("%s: expected one archive, got %s" % (ctx.attr.library.label, archives))

    out = ctx.actions.declare_file(ctx.label.name + ".o")
    ctx.actions.run_shell(
        inputs = archives,
        outputs = [out],
        command = _COMMANDS.format(
            archive = archives[0].path,
            entry = ctx.attr.entry,
            keep = " ".join([
                "--keep-global-symbol=" + symbol
                for symbol in [ctx.attr.entry] + ctx.attr.shared
            ]),
            weaken = " ".join(["--weaken-symbol=" + s for s in ctx.attr.shared]),
            shared = " ".join(["-e " + s for s in ctx.attr.shared]),
            new_entry = ctx.attr.new_entry,
            out = out.path,
        ),
        mnemonic = "IsolateObject",
    )
    return [DefaultInfo(files = depset([out]))]

isolated_object = rule(
    doc = """All of one library's own objects as one, of which a single function can be called.

Templates and inline functions are compiled into every object that uses them, and the linker keeps
any one copy of each for a whole program: that of a kernel for AVX-512 would then run on machines
that do not have it. So here every symbol but the entry is made local,
and the variables that the program shares.""",
    implementation = _isolated_object_impl,
    attrs = {
        "entry": attr.string(mandatory = True, doc = "the function's symbol in the library"),
        "library": attr.label(mandatory = True, providers = [CcInfo]),
        "shared": attr.string_list(
            mandatory = True,
            doc = "variables in headers, of which there must be one in a program",
        ),
        "new_entry": attr.string(mandatory = True, doc = "its symbol in the object"),
    },
)
