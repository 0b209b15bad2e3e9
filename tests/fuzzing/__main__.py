"""`make fuzz MINUTES=30`, or `python -m fuzzing --target run-review --seed 0 --case 17`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from fnmatch import fnmatch
from pathlib import Path

from fuzzing.campaign import Campaign, load_fonts
from fuzzing.case import LIMITS, Bench, Target
from fuzzing.targets import TARGETS
from fuzzing.watch import Watch, use_folder_for_temporary_files


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzzing", description=__doc__)
    parser.add_argument("--minutes", type=float, help="Fuzz for so long, every target in turn.")
    parser.add_argument("--share", type=float, default=1.0, help="Of the short run's cases.")
    parser.add_argument("--seed", type=int, default=0, help="The same seed gives the same cases.")
    parser.add_argument("--target", action="append", help="Targets, such as 'run-*'. Default: all.")
    parser.add_argument("--case", type=int, help="Run this one case here, and show its traceback.")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="Default: one per core.")
    parser.add_argument("--out", type=Path, help="Folder for the inputs of failures.")
    parser.add_argument("--result", type=Path, help="Write the counts as JSON.")
    parser.add_argument("--files", type=Path, help="Write the sources that sound input reached.")
    parser.add_argument("--list", action="store_true", help="Name the targets.")
    return parser.parse_args()


def choose_targets(patterns: list[str] | None) -> list[Target]:
    matches = [t for t in TARGETS if not patterns or any(fnmatch(t.name, p) for p in patterns)]
    if not matches:
        sys.exit(f"no target is called {', '.join(patterns or [])}: try --list")
    return matches


def run_one(campaign: Campaign, number: int) -> int:
    """One case in this process; its input stays where it is."""
    load_fonts()
    campaign.make_templates()
    scratch = campaign.scratch / "worker-0"
    for name, value in LIMITS.items():
        os.environ[name] = str(value)
    os.environ["UQLED_CACHE"] = str(scratch / "cache")
    use_folder_for_temporary_files(scratch / "temporary")
    outcome = Bench(scratch, campaign.scratch / "templates", Watch()).run(
        campaign.targets[0], campaign.seed, number
    )
    print(f"{outcome.kind} {outcome.problem}\ndamage: {outcome.damage}\n{outcome.detail}")
    print(f"The input is {scratch / 'input'}")
    return int(outcome.kind == "failure")


def show_progress(campaign: Campaign, until: float) -> None:
    total = sum(tally.cases for tally in campaign.tallies.values())
    left = until - time.monotonic()
    time_left = f"{int(left // 60):3d}:{int(left % 60):02d} left, " if left > 0 else ""
    print(f"{time_left}{total:,} cases, {len(campaign.failures):,} failures", flush=True)


def main() -> int:
    arguments = read_arguments()
    targets = choose_targets(arguments.target)
    if arguments.list:
        print("\n".join(target.name for target in targets))
        return 0
    scratch = Path(tempfile.mkdtemp(prefix="uqled-fuzz-"))
    failures = arguments.out or scratch / "failures"
    campaign = Campaign(targets, arguments.seed, scratch, failures.resolve())
    if arguments.case is not None:
        return run_one(campaign, arguments.case)
    began = time.monotonic()
    campaign.make_templates()
    campaign.warm_up()
    print(
        f"{len(targets)} targets, seed {arguments.seed}, ready in {time.monotonic() - began:.1f} s"
    )
    if arguments.files:
        arguments.files.write_text("\n".join(sorted(campaign.files)))
    minutes = arguments.minutes
    until = time.monotonic() + 60 * (minutes or 0)
    batches = campaign.time_batches(until) if minutes else campaign.count_batches(arguments.share)
    last_report = time.monotonic()

    def tell() -> None:
        nonlocal last_report
        if time.monotonic() - last_report > 10:
            last_report = time.monotonic()
            show_progress(campaign, until)

    try:
        campaign.run(batches, arguments.jobs, tell)
    except KeyboardInterrupt:
        print("stopped")
    print(campaign.summarise())
    if arguments.result:
        campaign.write_result(arguments.result)
    if not campaign.failures:
        shutil.rmtree(scratch, ignore_errors=True)
    return int(bool(campaign.failures))


if __name__ == "__main__":
    sys.exit(main())
