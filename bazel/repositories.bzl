"""Every repository that a workspace with brim in it needs."""

load("//bazel:cuda_configure.bzl", "cuda_configure")
load("//bazel:system_library.bzl", "system_library")

def brim_repositories(path):
    """Declares them. All come from the system: nothing is downloaded.

    Args:
      path: brim's folder, absolute or relative to the workspace.
    """

    # Bazel refers to these repositories by itself and would download them. The shims
    # re-export native rules; the other two come with Debian's Bazel.
    native.local_repository(
        name = "rules_cc",
        path = path + "/bazel/shims/rules_cc",
    )

    native.local_repository(
        name = "rules_proto",
        path = path + "/bazel/shims/rules_proto",
    )

    native.local_repository(
        name = "remote_coverage_tools",
        path = path + "/bazel/shims/remote_coverage_tools",
    )

    native.local_repository(
        name = "rules_java",
        path = "/usr/share/bazel/rules/java",
    )

    native.local_repository(
        name = "platforms",
        path = "/usr/share/bazel/tools/platforms",
    )

    system_library(
        name = "onednn",
        header = "dnnl.hpp",
        linkopts = ["-ldnnl"],
        newest = [3, 7],
        oldest = [2, 6],
        package = "libdnnl-dev",
        version_header = "oneapi/dnnl/dnnl_version.h",
        version_prefix = "DNNL_VERSION",
    )

    system_library(
        name = "jpeg",
        header = "jpeglib.h",
        linkopts = ["-ljpeg"],
        package = "libjpeg62-turbo-dev",
    )

    system_library(
        name = "png",
        header = "png.h",
        linkopts = ["-lpng"],
        package = "libpng-dev",
    )

    system_library(
        name = "nlohmann_json",
        header = "nlohmann/json.hpp",
        package = "nlohmann-json3-dev",
    )

    system_library(
        name = "fmt",
        header = "fmt/format.h",
        linkopts = ["-lfmt"],
        package = "libfmt-dev",
    )

    system_library(
        name = "cli11",
        header = "CLI/CLI.hpp",
        package = "libcli11-dev",
    )

    system_library(
        name = "doctest",
        header = "doctest/doctest.h",
        package = "doctest-dev",
    )

    cuda_configure(name = "cuda")
