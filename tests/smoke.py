"""Use an installed uqled as a person would, without PyTorch: `python tests/smoke.py`.

Not a test of results: it shows that the commands work with the versions of packages that are
installed, in an environment that has nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path


def write_table(path: Path) -> None:
    """Three classes of flowers from scikit-learn, of which every fifteenth label is wrong."""
    from sklearn.datasets import load_iris

    iris = load_iris()
    lines = ["width,length,petal,leaf,species"]
    for number, (row, code) in enumerate(zip(iris.data, iris.target, strict=True)):
        label = (code + 1) % 3 if number % 15 == 7 else code
        lines.append(",".join(map(str, [*row, iris.target_names[label]])))
    path.write_text("\n".join(lines) + "\n")


def run_command(*words: str, code: int = 0) -> dict:
    """The result of a command, which must end with this exit code."""
    command = [sys.executable, "-W", "error::DeprecationWarning:uqled", "-m", "uqled", *words]
    process = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    if process.returncode != code:
        raise SystemExit(f"{' '.join(words)}: exit code {process.returncode}\n{process.stderr}")
    return json.loads(process.stdout)["result"]


def main() -> None:
    for module in ("torch", "ray", "starlette"):
        if find_spec(module) is not None:
            print(f"note: {module} is installed here")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        table, run = place / "iris.csv", str(place / "run")
        write_table(table)
        result = run_command("find", str(table), "--label", "species", "--out", run)
        assert result["samples"] == 150, result["samples"]
        assert 5 <= result["flagged"] <= 40, result["flagged"]
        assert run_command("detect", run, "--method", "cl-pbnr")["flagged"] > 0
        run_command("report", run)
        cleaned_path = str(place / "cleaned.csv")
        export_output = run_command(
            "export", run, "--to", "csv", "--out", cleaned_path, "--unreviewed", "drop"
        )
        assert export_output["dropped"] > 0
        assert len(Path(cleaned_path).read_text().splitlines()) == 151 - export_output["dropped"]
        run_command("check", run, "--max-error-rate", "0.9")
        new = run_command("check", run, "--against", str(table), "--max-error-rate", "0.9")
        assert new["samples"] == 150, new["samples"]
        assert run_command("inspect", str(table), "--label", "species")["n_samples"] == 150
        import numpy as np

        import uqled

        labels, probs = (np.load(Path(run) / f"{name}.npy") for name in ("labels", "pred_probs"))
        errors = uqled.find_label_errors(labels, probs)
        assert errors.to_frame().shape[0] == 150
        import pandas as pd

        frame = pd.read_csv(table)
        frame_errors = uqled.find(frame, label="species", model="logistic", progress=False)
        assert frame_errors.apply_to(frame)["is_label_issue"].sum() == frame_errors.n_flagged
        assert len(frame_errors.corrected(frame, unreviewed="drop")) == 150 - frame_errors.n_flagged
    print(f"uqled {uqled.__version__} on Python {sys.version.split()[0]}: all commands work")


if __name__ == "__main__":
    main()
