"""Ray on a cluster of two nodes: the answers of threads, whatever is killed on the way."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import uqled
from uqled.engines import Engine, make_engine
from uqled.engines.local import Threads

ray = pytest.importorskip("ray")

from loopback import NODE  # noqa: E402
from uqled.engines.ray import RayTasks  # noqa: E402

#: If its raylet dies, Ray ends the process that started it, and all other tests with it.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def engine(cluster):
    with make_engine("ray", workers=2, address=cluster.address) as result:
        assert isinstance(result, Engine)
        assert result.is_distributed
        yield result


def add_prefix(prefix, item):
    time.sleep(0.01 * (item % 3))
    return f"{prefix}{item},"


def join(left, right):
    return left + right


def place(_):
    time.sleep(0.3)
    return ray.get_runtime_context().get_node_id(), os.getpid()


def fails_from(first, item):
    if item >= first:
        time.sleep(0.5 if item == first else 0)
        raise uqled.FileError(f"file {item}", "is missing", "Find it")
    return str(item)


def killed_once(folder, item):
    mark = Path(folder) / str(item)
    if item % 3 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{item},"


def killed_always(_):
    os.kill(os.getpid(), signal.SIGKILL)


def merged_after_a_kill(folder, left, right):
    mark = Path(folder) / "merge"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return left + right


def large(_, item):
    time.sleep(0.1)
    return np.full(1 << 19, item, np.float64)  # 4 MiB: kept by the node that made it


def threads_seen(_):
    import numba
    import torch

    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return (
        [os.environ[name] for name in names],
        numba.config.NUMBA_NUM_THREADS,
        torch.get_num_threads(),
    )


def address_of(shared_array, _):
    """Where the worker sees an array, and if it may write there."""
    return shared_array.flags.owndata, shared_array.flags.writeable, float(shared_array[0])


@pytest.mark.parametrize("workers", [1, 2, None])
@pytest.mark.parametrize("n", [1, 21])
@pytest.mark.usefixtures("engine")
def test_the_same_as_threads_in_the_same_order(workers, n):
    with Threads(2) as threads, RayTasks(workers) as tasks:
        assert tasks.workers == (workers or 2)
        expected = list(threads.map(add_prefix, range(n), arguments=("a",)))
        assert list(tasks.map(add_prefix, range(n), arguments=("a",))) == expected
        done_items = []
        assert tasks.reduce(
            add_prefix, iter(range(n)), join, arguments=("a",), advance=done_items.append
        ) == "".join(expected)
        assert sorted(done_items) == list(range(n))
    assert ray.is_initialized()  # it was there before, and is left running


def test_nothing_to_reduce(engine):
    assert list(engine.map(add_prefix, [], arguments=("a",))) == []
    with pytest.raises(ValueError, match="nothing was added"):
        engine.reduce(add_prefix, [], join, arguments=("a",))


def test_both_nodes_work(engine):
    result: set[tuple[str, int]] = set()
    until = time.monotonic() + 60  # a node's first worker may take longer to start than all tasks
    while len({node for node, _ in result}) < 2 and time.monotonic() < until:
        result.update(engine.map(place, range(8)))
    assert len({node for node, _ in result}) == 2
    assert os.getpid() not in {process for _, process in result}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.usefixtures("engine")
def test_few_are_in_flight(workers):
    n_drawn, n_done = 0, 0

    def items():
        nonlocal n_drawn
        for item in range(40):
            n_drawn += 1
            assert n_drawn - n_done <= 4 * workers + 1
            yield item

    def advance(_):
        nonlocal n_done
        n_done += 1

    tasks = RayTasks(workers)
    tasks.reduce(add_prefix, items(), join, arguments=("",), advance=advance)
    assert n_done == 40
    n_drawn = n_done = 0
    for result in tasks.map(add_prefix, items(), arguments=("",)):
        advance(result)


@pytest.mark.usefixtures("engine")
def test_no_more_run_at_a_time_than_workers_asked_for(tmp_path):
    def overlapping(folder, item):
        (folder / str(item)).touch()
        time.sleep(0.05)
        number = len(list(folder.iterdir()))
        (folder / str(item)).unlink()
        return number

    assert set(RayTasks(1).map(overlapping, range(6), arguments=(tmp_path,))) == {1}


def test_own_errors_come_out_as_themselves_and_the_first_of_them(engine):
    for first in (0, 5):
        with pytest.raises(uqled.FileError) as error_info:
            list(engine.map(fails_from, range(12), arguments=(first,)))
        assert type(error_info.value) is uqled.FileError
        assert error_info.value.argument == f"file {first}"
        with pytest.raises(uqled.FileError) as error_info:
            engine.reduce(fails_from, range(12), join, arguments=(first,))
        assert type(error_info.value) is uqled.FileError
        assert error_info.value.argument == f"file {first}"
    with pytest.raises(ZeroDivisionError):
        list(engine.map(divmod, [1, 0], arguments=(1,)))
    with pytest.raises(TypeError, match="can only concatenate"):
        engine.reduce(add_prefix, range(3), partial(_wrong_merge, 1), arguments=("a",))
    assert list(engine.map(add_prefix, [1], arguments=("a",))) == ["a1,"]  # it is as good as before


def _wrong_merge(number, left, _):
    return left + number


def test_a_worker_that_is_killed_costs_nothing_but_time(engine, tmp_path):
    arguments = (str(tmp_path),)
    assert "".join(engine.map(killed_once, range(4), arguments=arguments)) == "0,1,2,3,"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "3"]
    merge = partial(merged_after_a_kill, tmp_path)
    assert engine.reduce(killed_once, range(1, 8), merge, arguments=arguments) == "1,2,3,4,5,6,7,"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "3", "6", "merge"]


def test_a_task_that_kills_every_worker_ends_with_an_error(engine, monkeypatch):
    monkeypatch.setitem(engine._options, "max_retries", 1)
    with pytest.raises(uqled.InputError, match="engine lost the workers of a task"):
        list(engine.map(killed_always, [0]))


def alive():
    return len([node for node in ray.nodes() if node["Alive"]])


@pytest.mark.slow
def test_a_node_that_is_lost_in_the_middle(cluster):
    third = cluster.add_node(**NODE)
    cluster.wait_for_nodes()
    tasks = RayTasks(3)
    done_items = []

    def lose(item):
        done_items.append(item)
        if len(done_items) == 8:
            threading.Thread(target=cluster.remove_node, args=(third, False)).start()

    before = alive()
    total = tasks.reduce(large, range(24), np.add, arguments=(0,), advance=lose)
    until = time.monotonic() + 60
    while alive() > before - 1 and time.monotonic() < until:
        time.sleep(0.2)
    assert alive() == before - 1
    assert (total == sum(range(24))).all()
    assert sorted(done_items) == list(range(24))


def test_results_do_not_pile_up_in_the_driver(engine):
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    engine.reduce(large, range(2), np.add, arguments=(0,))
    before, most = resident(), 0

    def advance(_):
        nonlocal most
        most = max(most, resident())

    total = engine.reduce(large, range(60), np.add, arguments=(0,), advance=advance)
    assert (total == sum(range(60))).all()
    assert most - before < 16 << 20  # of 240 MiB that the items returned


def test_what_is_given_is_shared_memory(engine):
    shared_array = np.arange(1e6)
    for is_owner, writeable, first in engine.map(address_of, range(4), arguments=(shared_array,)):
        assert (is_owner, writeable, first) == (False, False, 0.0)


def test_a_task_has_the_threads_it_asked_for(engine):
    assert list(engine.map(threads_seen, [0])) == [(["1", "1", "1"], 1, 1)]


def test_another_cluster_than_the_one_it_is_connected_to(engine, cluster):
    port = cluster.address.rpartition(":")[2]
    for address in (None, "", "auto", cluster.address, f"localhost:{port}", "ray://any:10001"):
        assert list(RayTasks(2, address=address).map(str, [1])) == ["1"]
    assert engine.workers == 2  # and it goes on
    for address in ("local", "10.0.0.1:6379", f"10.0.0.1:{port}", "localhost:1"):
        with pytest.raises(uqled.InputError, match=r"address is .*, but this process is"):
            RayTasks(2, address=address)


def test_room_that_no_machine_has(engine):
    with pytest.raises(uqled.InputError, match="gpus is 1, but no machine"):
        RayTasks(gpus=1)
    with pytest.raises(uqled.InputError, match="cpus is 64, but no machine"):
        RayTasks(cpus=64)
    with pytest.raises(uqled.InputError, match="workers is 0"):
        RayTasks(0)
    with pytest.raises(uqled.InputError, match="cpus is 0"):
        RayTasks(cpus=0)
    assert engine.workers == 2
