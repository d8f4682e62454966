"""The table of bench/compare.py, as Markdown."""

PEERS = ("torch", "torch compiled", "torch tuned")
HEAD = ("row", "brim ms", "of its bound", "before", "eager", "compiled", "eager, tuned", "bytes")


def as_markdown(a, machine, results):
    lines = [", ".join(f"{name} {value}" for name, value in machine.items()) +
             f"; {a.threads} threads, {a.rounds} rounds. Ratios of times: theirs over ours, and of brim before over "
             "now; of bytes: ours over theirs. Of its bound: what a step takes at the machine's peak, over what it took.",
             "", line(HEAD), line("---" for _ in HEAD)]
    for r in results:
        lines.append(line([r["row"], f"{1e3 * r['brim']['median']:.1f}", share_of_bound(r),
                           before_cell(r.get("before")), *(time_cell(r["peers"].get(name)) for name in PEERS),
                           bytes_cell(r)]))
    for r in results:
        if "losses of epochs" in r:
            lines += ["", losses(r)]
    return "\n".join(lines) + "\n"


def line(cells):
    return "| " + " | ".join(cells) + " |"


def share_of_bound(r):
    return f"{r['bound_seconds'] / r['brim']['median']:.0%}" if r["bound_seconds"] else ""


def before_cell(before):
    return f"{before['ratio']:.3f} ({before['ratio_min']:.3f} to {before['ratio_max']:.3f})" if before else ""


def time_cell(peer):
    if peer is None:
        return ""
    met = "" if peer["ratio"] >= peer["bar"] else f", wanted {peer['bar']}"
    return f"{peer['ratio']:.2f} ({peer['ratio_min']:.2f} to {peer['ratio_max']:.2f}{met})"


def bytes_cell(r):
    if r["peak_mib"] is None:
        return ""
    share = r["peak_mib"] / r["torch_peak_mib"]
    met = "" if share <= r["bytes_bar"] else f", wanted {r['bytes_bar']}"
    return f"{r['peak_mib']:.0f} / {r['torch_peak_mib']:.0f} MiB, {share:.2f}{met}"


def losses(r):
    each = (f"{name} {', '.join(f'{loss:.3f}' for loss in values)}" for name, values in r["losses of epochs"].items())
    return f"Mean loss of each epoch in a row, of {r['row']}: {'; '.join(each)}."
