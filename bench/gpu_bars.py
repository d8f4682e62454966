#!/usr/bin/env python3
"""`gpu.sh bars`: what brim promises of a GPU, held against what `gpu.sh run` measured.

`bars(report)` needs no GPU. A bar has a group, a name, the number that was `measured`, the `wanted` one with its
`sense` (at least, at most, exactly), what the table `said`, the numbers behind it, and a verdict:

  met            measured, and everything that it is about was
  missed         measured; a single fault is enough, whatever else is missing
  not measured   with a `why`: nothing, or only a part of it
"""
import argparse
import json
import os
import sys

PAGE = 2 << 20  # what the driver gives out at once

HOLDS = {"at least": lambda a, b: a >= b, "at most": lambda a, b: a <= b, "exactly": lambda a, b: a == b}

# Part `peer NAME`: times as fast as PyTorch.
SPEEDS = [("resnet50 f16 batch 256", 1.25), ("mobilenet_v2 f16 batch 256", 1.3),
          ("resnet50 f16 batch 32", 1.3), ("resnet50 f32 batch 256", 1.1)]
# The same: brim's peak over PyTorch's.
PEAKS = [("resnet50 f16 batch 256", 0.75), ("mobilenet_v2 f16 batch 256", 0.55)]
# Of part `same MODEL`: run, and what its losses show.
SAME = [("cuda graph", "with --cuda-graph"), ("recompute", "with --recompute auto in a smaller budget"),
        ("caching", "with --planner caching"), ("direct", "with --planner direct"),
        ("offload", "with --offload auto in a smaller budget")]


def a_bar(group, name, sense, wanted, measured, said="", why=None, **numbers):
    """`why`: what is missing; then it cannot be met."""
    if measured is None:
        verdict, why = "not measured", why or "nothing of it was measured"
    elif not HOLDS[sense](measured, wanted):
        verdict = "missed"
    else:
        verdict = "not measured" if why else "met"
    bar = {"group": group, "name": name, "measured": measured, "sense": sense, "wanted": wanted, "said": said,
           "verdict": verdict, "numbers": numbers}
    return {**bar, "why": why} if why else bar


def listed(texts, most=4):
    """Of many reasons the first ones, and how many more."""
    more = f" (and {len(texts) - most} more)" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more or None


class Facts:
    """A report by names. Everything in it may be missing: parts that failed, or an older `train`."""

    def __init__(self, report):
        self.parts = {part["name"]: part for part in report.get("parts", [])}
        self.names = list(dict.fromkeys([*report.get("all_parts", []), *self.parts]))

    def named(self, beginning):
        return [name for name in self.names if name.startswith(beginning)]

    def why_not(self, name):
        """Why a part has no numbers; None where it may have."""
        part = self.parts.get(name)
        if part is None:
            return f"{name} was not run"
        return f"{name}: {part.get('why')}" if part["status"] == "skipped" else None

    def runs(self, *kinds):
        """(name, what it did) of each training, and what is missing."""
        runs, missing = [], []
        for name in [name for kind in kinds for name in self.named(kind + " ")]:
            found = self.parts.get(name, {}).get("runs", {})
            if not found:
                missing.append(self.why_not(name) or f"{name}: {self.parts[name].get('why')}")
            for run, did in found.items():
                if did.get("why"):
                    missing.append(f"{name}, {run}: {did['why']}")
                else:
                    runs.append((f"{name}, {run}", did))
        return runs, missing


# Tests.

def tests(facts, group, name, labels):
    """That none of the parts failed, and none skipped what it is there for."""
    if not labels:
        return a_bar(group, name, "exactly", 0, None, why="no such test was packed")
    found = {label: facts.parts.get(label, {}) for label in labels}
    failed = [label for label, part in found.items() if part.get("status") == "failed" and part.get("ended", True)]
    missing = [why for why in map(facts.why_not, labels) if why]
    missing += [f"{label}: {part['why']}" for label, part in found.items() if not part.get("ended", True)]
    for label, part in found.items():
        missing += [f"{label}: {skip['text']}" for skip in part.get("skips", [])
                    if " on CUDA" in skip["text"] or "cuDNN" in skip["text"] or "cuBLASLt" in skip["text"]]
    ran = [label for label in labels if facts.why_not(label) is None]
    return a_bar(group, name, "exactly", 0, len(failed) if ran else None,
                 f"{len(failed)} of {len(ran)} failed, of {len(labels)}", listed(missing), failed=failed)


def all_tests(facts):
    labels = facts.named("test ")
    ops = [label for label in labels if label.startswith("test tests/ops/")]
    yield tests(facts, "ops", "every op as on the CPU", ops)
    yield tests(facts, "ops", "all other tests", [label for label in labels if label not in ops])


def sanitizers(facts):
    for tool in "memcheck", "racecheck", "initcheck", "synccheck":
        yield tests(facts, "sanitizer", f"{tool} finds nothing in the ops", facts.named(tool + " "))


# Bytes.

def known(values):
    return [value for value in values if value is not None]


def account_differences(did):
    return known([did[key] - did["predicted_" + key] if did.get(key) is not None and
                  did.get("predicted_" + key) is not None else None for key in ("peak_bytes", "peak_live_bytes")])


def against_account(facts):
    runs, missing = facts.runs("bytes", "auto", "same")
    apart = {name: account_differences(did) for name, did in runs}
    missing += [f"{name}: no peak was written" for name, values in apart.items() if not values]
    measured = [abs(value) for values in apart.values() for value in values]
    off = {name: values for name, values in apart.items() if any(values)}
    return a_bar("bytes", "predicted peaks are the account's", "exactly", 0, max(measured, default=None),
                 f"{max(measured, default=0)} bytes apart at most, {len(off)} of {len(apart)} runs", listed(missing),
                 runs=len(apart), apart=off)


def driver_difference(did):
    """(bytes that the driver counts beyond what was predicted, None) or (None, why not)."""
    driver = did.get("driver") or {}
    process, before, after = (driver.get(key + "_bytes") for key in ("process", "before", "after"))
    if process is None:
        return None, "nobody says what the GPU has free"
    if did.get("predicted_peak_bytes") is None:
        return None, "no peak was written"
    if did.get("context_bytes") is None:
        return None, "the context was not measured"
    if after is not None and abs(after - before) > PAGE:
        return None, f"others took {after - before} bytes meanwhile"
    context = did["context_bytes"] + (did.get("context_growth_bytes") or 0)
    return process - context - did["predicted_peak_bytes"], None


def against_driver(facts):
    """Of the arena: it takes its bytes once, where samples cannot miss them."""
    runs, missing = facts.runs("bytes", "auto", "same")
    apart, growth = {}, {}
    for name, did in runs:
        if did.get("planner", "arena") != "arena":
            continue
        beyond, why = driver_difference(did)
        if why:
            missing.append(f"{name}: {why}")
        else:
            apart[name] = beyond
            growth[name] = did.get("context_growth_bytes")
    worst = max(apart.values(), key=abs, default=None)
    return a_bar("bytes", "predicted peak and context are the driver's", "at most", PAGE,
                 None if worst is None else abs(worst), f"{worst} bytes apart at most, {len(apart)} runs",
                 listed(missing), apart=apart, context_growth_bytes=growth)


def within_budget(facts):
    runs, missing = facts.runs("bytes", "auto", "same")
    shares = {}
    for name, did in runs:
        process = (did.get("driver") or {}).get("process_bytes")
        if did.get("budget_bytes") is None:
            continue
        if process is None:
            missing.append(f"{name}: nobody says what the GPU has free")
        elif process + PAGE < (did.get("peak_bytes") or 0):
            missing.append(f"{name}: the samples missed the peak")
        else:
            shares[name] = process / did["budget_bytes"]
    worst = max(shares.values(), default=None)
    return a_bar("bytes", "the driver counts no more than the budget", "at most", 1, worst,
                 f"{worst or 0:.4f} of it at most, {len(shares)} runs", listed(missing), of_budget=shares)


# Against PyTorch.

def peer_why(facts, part):
    """Why there is no number of both."""
    failed = facts.parts.get(part, {}).get("contestants_failed", {})
    for name in "brim", "torch":
        if name in failed:
            return f"{part}, {name}: {failed[name]}"
    return facts.why_not(part) or facts.parts[part].get("why") or f"{part}: no ratio was written"


def speeds(facts):
    for case, wanted in SPEEDS:
        part = facts.parts.get("peer " + case, {})
        ratio = part.get("times_as_fast", {}).get("brim / torch")
        name = f"{case}: times as fast as PyTorch"
        if not ratio:
            yield a_bar("speed", name, "at least", wanted, None, why=peer_why(facts, "peer " + case))
            continue
        done = part.get("last", {}).get("brim", {})
        graph = done.get("graph_steps")
        why = f"no update came from a graph: {done.get('why_no_graph')}" if graph == 0 else None
        yield a_bar("speed", name, "at least", wanted, ratio["median"],
                    f"{ratio['median']:.3f} ({ratio['least']:.3f} to {ratio['greatest']:.3f})", why,
                    rounds=part.get("rounds"))


def peaks(facts):
    for case, wanted in PEAKS:
        last = facts.parts.get("peer " + case, {}).get("last", {})
        for what, key in ("reserved", "peak_bytes"), ("live", "peak_live_bytes"):
            ours, theirs = (last.get(name, {}).get(key) for name in ("brim", "torch"))
            name = f"{case}: peak {what}, of PyTorch's"
            if ours is None or not theirs:
                yield a_bar("speed", name, "at most", wanted, None, why=peer_why(facts, "peer " + case))
            else:
                yield a_bar("speed", name, "at most", wanted, ours / theirs,
                            f"{ours / theirs:.3f} ({ours >> 20} of {theirs >> 20} MiB)", brim=ours, torch=theirs)


# Batches.

def is_refused(did):
    return did.get("exit") == 2 and did.get("steps") == 0


def largest_batch(facts):
    part = "auto free"
    found = facts.parts.get(part, {})
    did = found.get("runs", {}).get("batch auto", {})
    batch = did.get("batch")
    ran = batch is not None and not did.get("why")
    why = None if ran else did.get("why") or facts.why_not(part) or found.get("why")
    yield a_bar("batch", "--batch auto at 90% of the card runs", "exactly", 1, int(ran) if did else None,
                f"batch {batch}", why)
    more = found.get("one_more") or {}
    # Neither refused nor trained: who was ended by its limit, say, shows nothing.
    told = more and (is_refused(more) or more.get("steps") or not more.get("why"))
    yield a_bar("batch", "one image more is refused before a step", "exactly", 1,
                int(is_refused(more)) if told else None,
                f"batch {more.get('batch')}: exit {more.get('exit')}, {more.get('steps')} steps",
                None if told else more.get("why", why))


def times_the_batch(facts):
    for part in facts.named("auto recompute"):
        runs = facts.parts.get(part, {}).get("runs", {})
        off, auto = (None if did.get("why") else did.get("batch") for did in
                     (runs.get("off", {}), runs.get("auto", {})))
        why = next((did["why"] for did in runs.values() if did.get("why")), None) or facts.why_not(part)
        yield a_bar("batch", f"times the batch by recomputation, {part[len('auto recompute '):]}", "at least", 3,
                    auto / off if auto and off else None, f"{auto} of {off} images", why)


def out_of_memory(facts):
    runs, missing = facts.runs("bytes", "auto", "same")
    events = known(did.get("oom_events") for _, did in runs)
    return a_bar("batch", "out-of-memory events", "exactly", 0, sum(events) if events else None,
                 f"{sum(events)} in {len(events)} runs", listed(missing))


# The same numbers.

def relative_differences(losses, others):
    """Of each pair, of the greater; infinite where one is no number."""
    apart = [abs(a - b) / max(abs(a), abs(b), sys.float_info.min) for a, b in zip(losses, others)]
    return [one if one == one else float("inf") for one in apart]


def differing(losses, others):
    """How many are not the same to the last digit; a NaN is like nothing."""
    return abs(len(losses) - len(others)) + sum(a != b for a, b in zip(losses, others))


def why_not_as_asked(run, did):
    if run == "cuda graph" and not did.get("graph_steps"):
        return f"no update came from a graph: {did.get('why_no_graph')}"
    if run in ("recompute", "offload") and run not in (did.get("remedies") or []):
        return f"the plan has no {run}: {did.get('remedies')}"
    return None


def same_losses(facts):
    parts = facts.named("same ")
    for run, text in SAME:
        differ, of, missing = 0, 0, []
        for part in parts:
            runs = facts.parts.get(part, {}).get("runs", {})
            base, did = runs.get("keep all"), runs.get(run)
            if not base or not did or base.get("why") or did.get("why"):
                why = (base or {}).get("why") or (did or {}).get("why") or facts.parts.get(part, {}).get("why")
                missing.append(facts.why_not(part) or f"{part}: {why}")
                continue
            why = why_not_as_asked(run, did)
            missing += [f"{part}: {why}"] if why else []
            differ += differing(base["losses"], did["losses"])
            of += len(base["losses"])
        yield a_bar("numbers", f"the same losses {text}", "exactly", 0, differ if of else None,
                    f"{differ} of {of} differ", listed(missing))


def as_on_the_cpu(facts):
    for name in facts.named("agree "):
        part = facts.parts.get(name, {})
        apart = part.get("apart")
        why = None if apart else facts.why_not(name) or part.get("why")
        yield a_bar("numbers", f"{name[len('agree '):]}: five losses as on the CPU", "exactly", 1,
                    int(part["status"] == "passed") if apart else None,
                    "apart by " + ", ".join(f"{one:.1g}" for one in apart or []), why, apart=apart)


def bars(report):
    facts = Facts(report)
    return [*all_tests(facts), *as_on_the_cpu(facts), against_account(facts), against_driver(facts),
            within_budget(facts), *speeds(facts), *peaks(facts), *largest_batch(facts), *times_the_batch(facts),
            out_of_memory(facts), *sanitizers(facts), *same_losses(facts)]


# For people.

def table(all_bars):
    """Lines; the reasons of what is not met below the rows."""
    rows = [("bar", "measured", "wanted", "verdict")]
    for bar in all_bars:
        rows.append((f"{bar['group']}: {bar['name']}", "-" if bar["measured"] is None else bar["said"],
                     f"{bar['sense']} {bar['wanted']}", bar["verdict"]))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    lines += [f"{bar['verdict']}: {bar['group']}: {bar['name']}: {bar['why']}" for bar in all_bars if "why" in bar]
    count = [bar["verdict"] for bar in all_bars].count
    return [*lines, f"{count('met')} met, {count('missed')} missed, {count('not measured')} not measured"]


# Reports.

def write(path, report):
    """Whole or not at all."""
    with open(path + ".part", "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def read(paths, packed=None):
    """One report of several; of a part that several have, the last that passed or failed. `packed`: of which build."""
    reports = []
    for path in paths:
        with open(path) as file:
            reports.append(json.load(file))
    if any(report.get("packed") != (packed or reports[0].get("packed")) for report in reports):
        sys.exit("gpu.sh: these are measurements of different builds: " + ", ".join(paths))
    merged, parts = {}, {}
    for report in reports:
        merged.update(report)
        for part in report["parts"]:
            if part["status"] != "skipped" or part["name"] not in parts:
                parts[part["name"]] = part
    merged.update(parts=list(parts.values()), counts=counts(parts.values()),
                  seconds=sum(report.get("seconds", 0) for report in reports))
    return merged


def counts(parts):
    statuses = [part["status"] for part in parts]
    return {status: statuses.count(status) for status in ("passed", "failed", "skipped")}


def main():
    p = argparse.ArgumentParser(prog="gpu.sh bars", description="See gpu.sh --help.")
    p.add_argument("files", nargs="+")
    p.add_argument("--json")
    options = p.parse_args()
    report = read(options.files)
    report["bars"] = bars(report)
    print("\n".join(table(report["bars"])))
    if options.json:
        write(options.json, report)


if __name__ == "__main__":
    main()
