"""The page of the benchmark of detection."""

from __future__ import annotations

from typing import Any


def format_times(s: dict[str, Any]) -> str:
    return f"{s['median']:.3g} ({s['least']:.3g} to {s['most']:.3g}, n = {s['n']})"


def render_page(result: dict[str, Any]) -> str:
    """The result as a page."""
    m = result["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in m["versions"].items())
    lines = [
        "# Detection: speed and memory",
        "",
        f"{m['date']}, code {m['code']}; {m['cpu']}, {m['instructions']}, {m['cores']} cores, "
        f"{m['memory_gib']} GiB; "
        f"Python {m['python']}, {versions}. Made by `benchmarks/detection.py`. Times in seconds: "
        "median (least to most, n). Ratios are of medians.",
        "",
        "| what | measured | goal | |",
        "|---|---|---|---|",
    ]

    def row(what: str, measured: str, goal: str = "", met: bool | None = None) -> None:
        mark = "" if met is None else ("met" if met else "**missed**")
        lines.append(f"| {what} | {measured} | {goal} | {mark} |")

    for name, least in (("imagenet", 35), ("hundred", 15)):
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
        if name == "imagenet":
            reads = s["ours"]["median"] / s["max"]["median"]
            row(f"`pred_probs.max(axis=1)`, {size}", format_times(s["max"]))
            row("CL-PBNR in units of that", f"{reads:.2f}", "<= 2", reads <= 2)
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
    r = result["six"]
    s = r["seconds"]
    size = f"{r['N']:,} x {r['K']:,}, F = 5 ({r['bytes'] / 1e9:.1f} GB on disk)"
    better = min(s[f"cleanlab, one model in memory, n_jobs {jobs}"]["median"] for jobs in (1, 2))
    ratio = s["ours, warm"]["median"] / better
    for name, times in s.items():
        row(f"six algorithms, {size}: {name}", format_times(times))
    row("six algorithms in units of one cleanlab call", f"{ratio:.2f}", "<= 2", ratio <= 2)
    gigabytes = r["peak_memory"] / 1e9
    row("six algorithms: peak resident size", f"{gigabytes:.2f} GB", "< 2 GB", gigabytes < 2)
    r = result["cifar"]
    for name, times in r["seconds"].items():
        goal = name == "cl-pbnr"
        row(f"{r['N']:,} x {r['K']}, warm: {name}", format_times(times), "< 0.03" if goal else "",
            times["median"] < 0.03 if goal else None)  # fmt: skip
    s = r["seconds"]
    beside = min(s[f"cleanlab, n_jobs {jobs}"]["median"] for jobs in (1, 2)) / s["auto"]["median"]
    row(
        f"{r['N']:,} x {r['K']}, warm: the better of cleanlab's times over `auto`'s",
        f"{beside:.2f}",
        ">= 1",
        beside >= 1,
    )
    calls = s["all methods, five passes"]["median"] / s["cleanlab, n_jobs 1"]["median"]
    row(
        f"{r['N']:,} x {r['K']}, warm: all methods, five passes, in units of one cleanlab call",
        f"{calls:.2f}", "<= 2", calls <= 2,
    )  # fmt: skip
    goals = {"import uqled": 0.5, "`uqled detect`: first call on a machine": 2.0}
    goals |= {f"{name}: first call in a process": 1.0 for name in ("cl-pbnr", "auto")}
    for name, times in result["start-up"]["seconds"].items():
        most = goals.get(name)
        goal, met = ("", None) if most is None else (f"< {most:g}", times["median"] < most)
        row(name, format_times(times), goal, met)
    for name, g in result["growth"].items():
        row(f"exponent of {name}", f"{g['exponent']:.2f}", "linear: 1", g["exponent"] < 1.1)
    return "\n".join([*lines, *compare_instruction_sets(result)]) + "\n"


def compare_instruction_sets(result: dict[str, Any]) -> list[str]:
    """The same calls with the processor's own instructions and with AVX2 alone, side by side."""
    if not result.get("avx2"):  # a processor without AVX-512 was measured as it is
        return []
    lines = [
        "",
        f"The same with AVX2 alone, cleanlab too (`{result['avx2']['limits']}`):",
        "",
        f"| what | {result['machine']['instructions']} | AVX2 | AVX2 in units of the former |",
        "|---|---|---|---|",
    ]

    def row(what: str, wide: dict[str, Any], narrow: dict[str, Any]) -> None:
        ratio = narrow["median"] / wide["median"]
        lines.append(f"| {what} | {format_times(wide)} | {format_times(narrow)} | {ratio:.2f} |")

    names = {"ours": "CL-PBNR", "auto": "`auto`", "max": "`pred_probs.max(axis=1)`",
             "jobs 1": "cleanlab, n_jobs 1", "jobs 2": "cleanlab, n_jobs 2"}  # fmt: skip
    for part in ("hundred", "cifar"):
        r, narrow = result[part], result["avx2"][part]["seconds"]
        for name, times in r["seconds"].items():
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
