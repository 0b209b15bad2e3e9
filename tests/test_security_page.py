"""docs/security.md names every file that reads foreign bytes, and none that is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "uqled"
PAGE = (ROOT / "docs" / "security.md").read_text()
#: Calls that parse bytes, or run what they name.
READERS = re.compile(
    r"""(?<![.\w])(
        np\.(load|memmap|frombuffer|fromfile|genfromtxt|loadtxt) | np\.lib\.format\.\w+
        | torch\.load | runtime\.InferenceSession | feather\.\w+ | pa\.ipc\.\w+ | Calamine\w+\.\w+
        | json\.loads? | tomllib\.loads? | pickle\.loads? | literal_eval | genops | eval | exec
        | pd\.read_\w+ | pq\.(ParquetFile|read_\w+) | ds\.dataset | csv\.(reader|DictReader)
        | sqlite3\.connect | zipfile\.ZipFile | tarfile\.open | gzip\.\w+ | lzma\.\w+ | bz2\.\w+
        | Image\.open | decode_jpeg\w* | zarr\.open\w* | datasets\.load_\w+ | create_model
        | os\.open | entry_points | safetensors\.\w+ | from_pretrained | parse_json
        | (read|open)_(file|json|text|array|npz|zip|tensors|regular|decompressed|csv|parquet
        |arrow|shards)
    )\( | \.read_bytes\(""",
    re.VERBOSE,
)
#: Files that open only what they themselves have just made.
OWN_FILES = {"storage/atomic.py", "storage/lock.py", "export/targets.py", "bench/workers.py"}


def list_readers():
    texts = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in SOURCE.rglob("*.py")}
    return sorted(n for n, text in texts.items() if n not in OWN_FILES and READERS.search(text))


@pytest.mark.parametrize("name", list_readers())
def test_every_reader_has_a_line(name):
    folder = f"{Path(name).parent.as_posix()}/"
    is_named = f"`{name}`" in PAGE or f"`{folder}`" in PAGE
    assert is_named, f"say in docs/security.md what {name} trusts, and why"


def test_files_that_are_named_are_there():
    names = re.findall(r"`([\w/]+(?:\.py|/))`", PAGE)
    assert len(names) > 40
    assert [name for name in names if not (SOURCE / name).exists()] == []


def test_nothing_is_unpickled():
    """Not even where a library would do it for us."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert not re.search(r"^\s*(import|from) (pickle|dill|cloudpickle|joblib)\b", text, re.M)
        assert "allow_pickle=True" not in text
        assert "read_pickle" not in text
        for call in re.findall(r"torch\.load\(.*", text):
            assert "weights_only=True" in call, path
