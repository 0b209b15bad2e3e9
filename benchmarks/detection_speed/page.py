"""The page of the benchmark of detection."""

from __future__ import annotations

from typing import Any


def format_times(s: dict[str, Any]) -> str:
    return f"{s['median']:.3g} ({s['least']:.3g} to {s['most']:.3g}, n = {s['n']})"


def render_page(result: dict[str, Any]) -> str:
    """The result as a page."""
    lines = [
        "# Detection: speed and memory",
        "",
        "Made by `benchmarks/detection.py`. Times in seconds: median (least to most, n). Ratios "
        "are of medians; cleanlab's time is the better of one and of two processes.",
        "",
        *describe_parts(result),
        "",
        "| what | measured | goal | |",
        "|---|---|---|---|",
    ]

    def row(what: str, value: str, goal: str = "", is_met: bool | None = None) -> None:
        mark = "" if is_met is None else ("met" if is_met else "**missed**")
        lines.append(f"| {what} | {value} | {goal} | {mark} |")

    for name, least in (("imagenet", 35), ("hundred", 15)):
        if name not in result:
            continue
        r = result[name]
        s = r["seconds"]
        size = f"{r['N']:,} x {r['K']:,} float32"
        best = min(s["jobs 1"]["median"], s["jobs 2"]["median"])
        ratio = best / s["ours"]["median"]
        row(f"CL-PBNR, {size}: ours", format_times(s["ours"]))
        row(f"CL-PBNR, {size}: cleanlab, n_jobs 1", format_times(s["jobs 1"]))
        row(f"CL-PBNR, {size}: cleanlab, n_jobs 2", format_times(s["jobs 2"]))
        row(f"CL-PBNR, {size}: times faster than the better", f"{ratio:.1f}", f">= {least}",
            ratio >= least)  # fmt: skip
        reads, is_largest = s["ours"]["median"] / s["max"]["median"], name == "imagenet"
        row(f"one pass over memory, `pred_probs.max(axis=1)`, {size}", format_times(s["max"]))
        row(f"CL-PBNR in units of that, {size}", f"{reads:.2f}",
            *(("<= 2", reads <= 2) if is_largest else ()))  # fmt: skip
        if "read" in s:  # not in older results
            rate = r["bytes"] / s["read"]["median"] / 1e9
            row(f"reading all bytes once with {r['threads']} threads, {size}, {rate:.0f} GB/s",
                format_times(s["read"]))  # fmt: skip
            row(f"CL-PBNR in units of that, {size}",
                f"{s['ours']['median'] / s['read']['median']:.2f}")  # fmt: skip
        if is_largest:
            share = r["extra_memory_share"]
            row("extra peak memory, share of the input", f"{share:.1%}", "<= 10 %", share <= 0.1)
        row(
            f"flags that differ from cleanlab's, {size}",
            f"{r['flags_that_differ']} of {r['flagged']:,}",
        )
        beside = best / s["auto"]["median"]
        row(f"`auto`, the default, {size}", format_times(s["auto"]))
        row(
            f"the better of cleanlab's times over `auto`'s, {size}", f"{beside:.2f}", ">= 3",
            beside >= 3,
        )  # fmt: skip
        row(f"`auto`, {size}: extra peak memory per sample",
            f"{r['extra_memory_of_auto']:.0f} bytes")  # fmt: skip
    if "six" in result:
        r = result["six"]
        s = r["seconds"]
        size = f"{r['N']:,} x {r['K']:,}, F = 5 ({r['bytes'] / 1e9:.1f} GB on disk)"
        best_of_cleanlab = min(
            s[f"cleanlab, one model in memory, n_jobs {jobs}"]["median"] for jobs in (1, 2)
        )
        ratio = s["ours, warm"]["median"] / best_of_cleanlab
        for name, times in s.items():
            row(f"six algorithms, {size}: {name}", format_times(times))
        row("six algorithms in units of one cleanlab call", f"{ratio:.2f}", "<= 2", ratio <= 2)
        gigabytes = r["peak_memory"] / 1e9
        row("six algorithms: peak resident size", f"{gigabytes:.2f} GB", "< 2 GB", gigabytes < 2)
    if "cifar" in result:
        r = result["cifar"]
        for name, times in r["seconds"].items():
            goal = name == "cl-pbnr"
            more = ("< 0.03", times["median"] < 0.03) if goal else ()
            row(f"{r['N']:,} x {r['K']}, warm: {name}", format_times(times), *more)
        s = r["seconds"]
        peer_time = min(s[f"cleanlab, n_jobs {jobs}"]["median"] for jobs in (1, 2))
        beside = peer_time / s["auto"]["median"]
        row(
            f"{r['N']:,} x {r['K']}, warm: the better of cleanlab's times over `auto`'s",
            f"{beside:.2f}",
            ">= 1",
            beside >= 1,
        )
        calls = s["all methods, five passes"]["median"] / peer_time
        row(
            f"{r['N']:,} x {r['K']}, warm: all methods, five passes, in units of one cleanlab call",
            f"{calls:.2f}", "<= 2", calls <= 2,
        )  # fmt: skip
    if "start-up" in result:
        goals = {"import uqled": 0.5, "`uqled detect`: first call on a machine": 2.0}
        goals |= {
            f"{name}, 50,000 x 10: first call in a process": 1.0 for name in ("cl-pbnr", "auto")
        }
        ends = {
            f" {N} x 10: first call on a machine": s for N, s in (("600", 1.0), ("50,000", 2.0))
        }
        for name, times in result["start-up"]["seconds"].items():
            most = goals.get(name, next((s for end, s in ends.items() if name.endswith(end)), None))
            goal, is_met = ("", None) if most is None else (f"< {most:g}", times["median"] < most)
            row(name, format_times(times), goal, is_met)
    for name, g in result.get("growth", {}).get("exponents", {}).items():
        row(f"exponent of {name}", f"{g['exponent']:.2f}", "linear: 1", g["exponent"] < 1.1)
    return "\n".join([*lines, *compare_instruction_sets(result)]) + "\n"


def describe_parts(result: dict[str, Any]) -> list[str]:
    """Where and when each part was measured."""
    lines = ["| part | minutes | instruction set | measured on |", "|---|---:|---|---|"]
    for name, part in result.items():
        m = part["machine"]
        versions = ", ".join(f"{package} {number}" for package, number in m["versions"].items())
        minutes = f"{part['minutes']:.1f}" if "minutes" in part else ""
        lines.append(
            f"| `{name}` | {minutes} | {m.get('instructions', 'not recorded')} | {m['date']}, code "
            f"{m['code']}; {m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB; Python "
            f"{m['python']}, {versions} |"
        )
    return lines


def compare_instruction_sets(result: dict[str, Any]) -> list[str]:
    """The same calls with the processor's own instructions and with AVX2 alone, side by side."""
    if not {"avx2", "cifar", "hundred"} <= set(result):
        return []
    instructions = result["cifar"]["machine"].get("instructions")
    lines = [
        "",
        f"The same with AVX2 alone, cleanlab too (`{result['avx2']['limits']}`):",
        "",
        f"| what | {instructions} | AVX2 | AVX2 in units of the former |",
        "|---|---|---|---|",
    ]

    def row(what: str, wide: dict[str, Any], narrow: dict[str, Any]) -> None:
        ratio = narrow["median"] / wide["median"]
        lines.append(f"| {what} | {format_times(wide)} | {format_times(narrow)} | {ratio:.2f} |")

    names = {"ours": "CL-PBNR", "auto": "`auto`", "max": "`pred_probs.max(axis=1)`",
             "read": "reading all bytes once",
             "jobs 1": "cleanlab, n_jobs 1", "jobs 2": "cleanlab, n_jobs 2"}  # fmt: skip
    for part in ("hundred", "cifar"):
        r, narrow = result[part], result["avx2"][part]["seconds"]
        for name, times in r["seconds"].items():
            if name in narrow:
                row(f"{r['N']:,} x {r['K']:,}: {names.get(name, name)}", times, narrow[name])
    for part, ours, theirs in (
        ("hundred", "ours", "jobs"),
        ("hundred", "auto", "jobs"),
        ("cifar", "auto", "cleanlab, n_jobs"),
        ("cifar", "all methods, five passes", "cleanlab, n_jobs"),
    ):
        r = result[part]
        wide, narrow = (
            min(s[f"{theirs} {jobs}"]["median"] for jobs in (1, 2)) / s[ours]["median"]
            for s in (r["seconds"], result["avx2"][part]["seconds"])
        )
        what = f"{r['N']:,} x {r['K']:,}: the better of cleanlab's times over that of"
        lines.append(f"| {what} {names.get(ours, ours)} | {wide:.2f} | {narrow:.2f} | |")
    return lines
