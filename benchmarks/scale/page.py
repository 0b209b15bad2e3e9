"""Tables and pictures of what `scale.py` measured; also the block of them in docs/scale.md."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"
BEGIN, END = "<!-- measured: made by benchmarks/scale/measure.py -->", "<!-- end of measured -->"
#: Sets that nobody has here: what they would need is worked out.
IMAGINED_SETS = (
    ("ImageNet-21k", 14_200_000, 21_841),
    ("a billion rows, a thousand classes", 1_000_000_000, 1_000),
)
GROWTH = {"n": "N", "k": "K", "f": "F"}
DRIVER = ("driver", "driver-few-classes")
#: Of the driver's memory from the least N to the most: this is called no growth.
_NO_GROWTH = 0.05


def save(result: dict[str, Any], place: Path, *, into_documents: bool) -> None:
    """Write the result as JSON, tables and a picture; and the block in the document."""
    (place / "scale.json").write_text(json.dumps(result, indent=1) + "\n")
    (place / "scale.md").write_text(format_page(result))
    draw_picture(result, place / "scale.png")
    if into_documents and DOCUMENT.exists():
        before, _, rest = DOCUMENT.read_text().partition(BEGIN)
        _, end, after = rest.partition(END)
        if not end:
            raise SystemExit(f"{DOCUMENT.name} has no block {BEGIN} ... {END}")
        DOCUMENT.write_text(f"{before}{BEGIN}\n{format_block(result)}\n{END}{after}")


def format_page(result: dict[str, Any]) -> str:
    """All that was measured."""
    lines = [
        "# Detection in parts: more than memory, Ray, growth",
        "",
        "Made by `benchmarks/scale/measure.py`: `alg-ens`, which needs every member of the paper's "
        "six algorithms, float32 in `.npy` shards. "
        "Median (least to most, n). Ratios are of pairs of runs, one after the other.",
    ]
    if about := _describe_settings(result):
        lines += ["", about]
    lines += ["", "| what | measured | goal | |", "|---|---|---|---|"]
    for what, value, goal, is_met in _list_rows(result):
        mark = "" if is_met is None else ("met" if is_met else "**missed**")
        lines.append(f"| {what} | {value} | {goal} | {mark} |")
    for part in (_format_plan(result), _format_points(result), _format_needs(result)):
        if part:
            lines += ["", *part]
    return "\n".join(lines) + "\n"


def format_block(result: dict[str, Any]) -> str:
    """What the document shows."""
    lines = [f"{_describe_settings(result)} [All numbers](../benchmarks/results/scale.md)."]
    for part in (
        _format_summary(result),
        _format_growth(result),
        _format_plan(result),
        _format_needs(result),
    ):
        if part:
            lines += ["", *part]
    if any(name in result for name in GROWTH):
        lines += ["", "![time against N, K and F](../benchmarks/results/scale.png)"]
    return "\n".join(lines)


def _describe_settings(result: dict[str, Any]) -> str:
    """The machines and versions; one line where all sections have the same."""
    settings: dict[str, list[str]] = {}
    for name, section in result.items():
        if "machine" in section:
            m = section["machine"]
            versions = ", ".join(f"{n} {number}" for n, number in m["versions"].items())
            instructions = m.get("instructions", "instruction set not recorded")
            line = (
                f"{m['date']}, code {m['code']}; {m['cpu']}, {instructions}, {m['cores']} cores, "
                f"{m['memory_gib']} GiB; Python {m['python']}, {versions}."
            )
            settings.setdefault(line, []).append(name)
    if len(settings) == 1:
        return next(iter(settings))
    return " ".join(f"Rows {', '.join(names)}: {line}" for line, names in settings.items())


def _format_size(r: dict[str, Any]) -> str:
    return f"{r['N']:,} x {r['K']:,}, F = {r['F']} ({_format_bytes(r['bytes'])})"


def _list_rows(result: dict[str, Any]) -> list[tuple[str, str, str, bool | None]]:
    """(what, measured, goal, met) of every section."""
    rows: list[tuple[str, str, str, bool | None]] = []
    if r := result.get("out-of-core"):
        s, ratio, peak = r["seconds"], r["ratio"], r["peak_memory"]
        name = f"out of core, {_format_size(r)}, {r['workers']} threads"
        share = r["memory_share"]
        rows += [
            (f"{name}: times the machine's memory", f"{share:.2f}", ">= 1.5", share >= 1.5),
            (f"{name}: reading all three times, s", _show(s["reading three times"]), "", None),
            (f"{name}: detection, s", _show(s["detection"]), "", None),
            ("detection in units of that reading", _show(ratio), "<= 1.3",
             ratio["median"] <= 1.3),
            (f"{name}: reading all three times with direct I/O, as detection does, s",
             _show(s["reading past the cache"]), "", None),
            ("detection in units of reading with direct I/O", _show(r["ratio_past_cache"]),
             "<= 1.3", r["ratio_past_cache"]["median"] <= 1.3),
            ("peak resident size, GB", _show(peak, 1e-9), "< 2", peak["most"] < 2e9),
            ("size of the result", _format_bytes(r["result_bytes"]), "", None),
        ]  # fmt: skip
    if r := result.get("ray"):
        name = f"{_format_size(r)}, in the file cache"
        rows += [
            (f"{name}: local engine, 2 threads, s", _show(r["seconds"]["local"]), "", None),
            (f"{name}: Ray, 2 workers of one core, s", _show(r["seconds"]["ray"]), "", None),
            ("Ray in units of the local engine", _show(r["ratio"]), "<= 1.5",
             r["ratio"]["median"] <= 1.5),
            ("flags that differ between the two", f"{r['flags_that_differ']:,}", "0",
             r["flags_that_differ"] == 0),
        ]  # fmt: skip
    for name, letter in GROWTH.items():
        if r := result.get(name):
            what = "F + 1" if letter == "F" else letter
            # At small sizes, what a run costs anyway hides the growth.
            for which, begin in (("exponent", 0), ("last_doubling", -2)):
                low, high = (_scale_axis(r["points"][at], name) for at in (begin, -1))
                goal = ("<= 1.05", r[which]["median"] <= 1.05) if name == "n" else ("", None)
                of = f"exponent of time in {what}, {low:,} to {high:,}"
                rows.append((of, _show(r[which]), *goal))
    if r := result.get("workers"):
        for engine, unit in (("local", "threads"), ("ray", "workers")):
            one, two = (r[f"{engine} {w}"]["seconds"]["median"] for w in (1, 2))
            rows.append((f"{engine}: speed-up from 1 to 2 {unit}", f"{one / two:.2f}", "", None))
    for name in DRIVER:
        if name not in result:
            continue
        r = result[name]
        least, most = r["points"][0], r["points"][-1]
        rows.append(
            (
                f"driver's peak memory on Ray, K = {least['K']}, N {least['N']:,} to "
                f"{most['N']:,}, MB",
                f"{least['peak_memory']['median'] / 1e6:.0f} to "
                f"{most['peak_memory']['median'] / 1e6:.0f} ({r['growth']:+.1%})",
                f"does not grow (<= {_NO_GROWTH:.0%})",
                r["growth"] <= _NO_GROWTH,
            )
        )
    return rows


def _format_summary(result: dict[str, Any]) -> list[str]:
    """The table without goals."""
    rows = [f"| {what} | {value} |" for what, value, _, _ in _list_rows(result)]
    return ["| what | measured |", "|---|---|", *rows] if rows else []


def _format_plan(result: dict[str, Any]) -> list[str]:
    """The plan beside the run that followed."""
    if "out-of-core" not in result:
        return []
    r = result["out-of-core"]
    names = {
        "to_read": "bytes read",
        "to_write": "bytes written",
        "memory": "memory (planned: an upper bound)",
    }
    lines = [
        f"The plan for the detection out of core took {r['planning_seconds']:.1f} s. Compared with "
        "what was measured afterwards:",
        "",
        "| | planned | measured | error |",
        "|---|---|---|---|",
    ]
    for key, name in names.items():
        p = r["plan"][key]
        lines.append(
            f"| {name} | {_format_bytes(p['planned'])} | {_format_bytes(p['measured'])} "
            f"| {p['error']:+.0%} |"
        )
    p = r["plan"]["seconds"]
    lines.append(
        f"| time | {p['planned']:.3g} s | {p['measured']:.3g} s (median) | {p['error']:+.0%} |"
    )
    return lines


def _format_points(result: dict[str, Any]) -> list[str]:
    """Every point of the growth, with its spread."""
    lines = [
        "| | N | K | F | seconds | peak memory of the process, MB |",
        "|---|---|---|---|---|---|",
    ]
    titles = {name: f"growth with {letter}" for name, letter in GROWTH.items()}
    rows = [(titles[name], p) for name in GROWTH if name in result for p in result[name]["points"]]
    if r := result.get("workers"):
        rows += [(name, p) for name, p in r.items() if name != "machine"]
    rows += [
        ("driver on Ray", p) for name in DRIVER if name in result for p in result[name]["points"]
    ]
    for name, p in rows:
        lines.append(
            f"| {name} | {p['N']:,} | {p['K']:,} | {p['F']} | {_show(p['seconds'])} | "
            f"{_show(p['peak_memory'], 1e-6)} |"
        )
    return lines if rows else []


def _format_growth(result: dict[str, Any]) -> list[str]:
    """One row per series: medians."""
    rows = []
    for name, letter in GROWTH.items():
        if r := result.get(name):
            first = r["points"][0]
            fixed_sizes = ", ".join(f"{x} = {first[x]:,}" for x in ("N", "K", "F") if x != letter)
            times = "; ".join(f"{p[letter]:,}: {p['seconds']['median']:.3g} s" for p in r["points"])
            rows.append(f"| {letter} ({fixed_sizes}) | {times} | {r['exponent']['median']:.2f} |")
    if r := result.get("workers"):
        times = "; ".join(
            f"{name}: {p['seconds']['median']:.3g} s" for name, p in r.items() if name != "machine"
        )
        rows.append(f"| workers ({_format_size(r['local 1'])}) | {times} | |")
    if not rows:
        return []
    return ["| what grows | time | exponent |", "|---|---|---|", *rows]


def _format_needs(result: dict[str, Any]) -> list[str]:
    """What sets that were not measured would need."""
    if not {"needs", "ray", "out-of-core"} <= result.keys():
        return []
    ray, core = result["ray"], result["out-of-core"]
    per_core = 3 * ray["bytes"] / ray["seconds"]["local"]["median"] / ray["workers"]
    disk = 3 * core["bytes"] / core["seconds"]["reading three times"]["median"]
    bytes_per_row = core["plan"]["to_write"]["measured"] / core["N"]
    names = list(result["needs"])
    columns: dict[str, list[str]] = {}
    for name in names:
        r = result["needs"][name]
        size = 4 * r["N"] * r["K"] * (r["F"] + 1)
        seconds = 3 * size / per_core
        column = {
            f"softmax and {r['F']} passes, float32": _format_bytes(size),
            "to read, in three sweeps": _format_bytes(3 * size),
            "to write, including temporary files": _format_bytes(bytes_per_row * r["N"]),
            "parts": f"{r['parts']:,}",
            "core-hours of the local engine": f"{seconds / 3600:,.1f}",
            "core-hours on Ray": f"{seconds * ray['ratio']['median'] / 3600:,.1f}",
            "memory of a worker, at most": _format_bytes(r["worker"]),
            "memory of the driver, at most": _format_bytes(r["driver"]),
            "hours on the measured machine, by its disk": f"{3 * size / disk / 3600:,.1f}",
            "cores needed to finish in an hour on Ray": (
                f"{math.ceil(seconds * ray['ratio']['median'] / 3600):,}"
            ),
            "total reading rate needed for that": f"{_format_bytes(3 * size / 3600)}/s",
        }
        for what, value in column.items():
            columns.setdefault(what, []).append(value)
    shapes = [f"{n} ({result['needs'][n]['N']:,} x {result['needs'][n]['K']:,})" for n in names]
    return [
        "Calculated, not measured: times from the rate at which one core swept rows of "
        f"{ray['K']:,} classes in the file cache ({_format_bytes(per_core)}/s) and from the disk's "
        f"rate ({_format_bytes(disk)}/s), assuming that both stay the same; memory from the plan's "
        "arithmetic, without the interpreter.",
        "",
        f"| | {' | '.join(shapes)} |",
        "|---|" + "---|" * len(names),
        *(f"| {what} | {' | '.join(values)} |" for what, values in columns.items()),
    ]


def _show(s: dict[str, Any], unit: float = 1.0) -> str:
    median, least, most = (s[name] * unit for name in ("median", "least", "most"))
    return f"{median:.3g} ({least:.3g} to {most:.3g}, n = {s['n']})"


def _format_bytes(number: float) -> str:
    """As a person says it: three figures."""
    for unit, name in ((1e12, "TB"), (1e9, "GB")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number / 1e6:.3g} MB"


def _format_count(number: int) -> str:
    """Short enough for an axis."""
    for unit, name in ((10**6, "M"), (10**3, "k")):
        if number >= unit:
            return f"{number / unit:g}{name}"
    return str(number)


def _scale_axis(point: dict[str, Any], name: str) -> int:
    return int(point["F"] + 1 if name == "f" else point[GROWTH[name]])


def draw_picture(result: dict[str, Any], path: Path) -> None:
    """Time against N, K and F with a line of slope one, and the driver's memory, on log axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sections = [name for name in (*GROWTH, "driver") if name in result]
    if not sections:
        return
    figure, axes = pyplot.subplots(
        1, len(sections), figsize=(3.6 * len(sections), 3.4), layout="constrained", squeeze=False
    )
    for name, axis in zip(sections, axes[0], strict=True):
        points = result[name]["points"]
        x = [p["N"] if name == "driver" else _scale_axis(p, name) for p in points]
        axis.set(xscale="log", yscale="log")
        axis.set_xticks(x, [_format_count(one) for one in x])
        axis.xaxis.set_minor_formatter("")
        if name == "driver":
            peaks = [p["peak_memory"]["median"] / 1e6 for p in points]
            axis.plot(x, peaks, "o-")
            axis.set(xlabel="N", ylabel="driver's peak memory on Ray, MB", ylim=(50, 5000))
            continue
        y = [p["seconds"]["median"] for p in points]
        low = [p["seconds"]["median"] - p["seconds"]["least"] for p in points]
        high = [p["seconds"]["most"] - p["seconds"]["median"] for p in points]
        axis.errorbar(x, y, yerr=[low, high], fmt="o", capsize=3)
        middle = len(x) // 2
        line = [y[middle] * one / x[middle] for one in x]
        axis.plot(x, line, color="grey", linewidth=0.8, label="linear")
        what = "F + 1" if name == "f" else GROWTH[name]
        axis.set(
            xlabel=what,
            ylabel="seconds",
            title=f"exponent {result[name]['exponent']['median']:.2f}",
        )
        axis.legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
