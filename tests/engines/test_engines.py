"""Threads: the order of the items, few waiting, the first error, merges as a tree."""

from __future__ import annotations

import threading
import time

import pytest

import uqled
from uqled.engines import Engine, MergeTree, make_engine
from uqled.engines.local import Threads, count_cores


def slowly(item):
    """The earlier, the slower: results are ready in another order than they are asked for."""
    time.sleep(0.02 / (1 + item))
    return str(item) + ","


def join(left, right):
    return left + right


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("n", [1, 2, 7, 33])
def test_results_come_in_the_order_of_the_items(threads, n):
    expected = [f"{i}," for i in range(n)]
    with Threads(threads) as engine:
        assert list(engine.map(slowly, range(n))) == expected
        done_items = []
        assert engine.reduce(slowly, range(n), join, advance=done_items.append) == "".join(expected)
        assert done_items == list(range(n))


@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_given_comes_before_the_item(threads):
    with Threads(threads) as engine:
        assert list(engine.map(pow, [2, 3], arguments=(2,))) == [4, 8]
        assert engine.reduce(pow, [2, 3], join, arguments=(2,)) == 12


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_few_items_are_drawn_ahead(threads):
    n_drawn = 0

    def items():
        nonlocal n_drawn
        for item in range(200):
            n_drawn += 1
            yield item

    with Threads(threads) as engine:
        for number, _ in enumerate(engine.map(str, items())):
            assert n_drawn - number <= 2 * threads + 1


@pytest.mark.parametrize("threads", [1, 4])
def test_the_error_is_that_of_the_first_item_that_has_one(threads):
    def work(item):
        if item >= 3:
            time.sleep(0.05 if item == 3 else 0)
            raise uqled.InputError("item", f"is {item}", "Pass less")
        return item

    with Threads(threads) as engine:
        with pytest.raises(uqled.InputError, match="item is 3"):
            list(engine.map(work, range(9)))
        with pytest.raises(uqled.InputError, match="item is 3"):
            engine.reduce(work, range(9), join)
        assert list(engine.map(work, range(3))) == [0, 1, 2]  # it is as good as before


def test_a_tree_keeps_as_many_as_its_height():
    most = 0
    tree = MergeTree(lambda left, right: f"({left}{right})")
    for letter in "abcdefghijklmnop":
        tree.add(letter)
        most = max(most, sum(map(len, tree._levels)))
    assert most == 4
    assert tree.merge_all() == "((((ab)(cd))((ef)(gh)))(((ij)(kl))((mn)(op))))"
    for letter in "abcde":
        tree.add(letter)
    assert tree.merge_all() == "(((ab)(cd))e)"
    wide = MergeTree(lambda *parts: f"({''.join(parts)})", fan_in=3)
    for letter in "abcdefghijklmn":
        wide.add(letter)
    assert wide.merge_all() == "(((abc)(def)(ghi))((jkl)mn))"
    with pytest.raises(ValueError, match="nothing was added"):
        tree.merge_all()


def test_engines_by_name():
    with make_engine(None) as engine:
        assert isinstance(engine, Threads)
        assert engine.workers == count_cores()
        assert isinstance(engine, Engine)
        assert not engine.is_distributed
    with make_engine("local", workers=3) as engine:
        assert engine.workers == engine.threads == 3
        with make_engine(engine) as same:
            assert same is engine
        threads = set(engine.map(lambda _: time.sleep(0.02) or threading.get_ident(), range(6)))
        assert len(threads) == 3  # still running
    with pytest.raises(uqled.InputError, match=r"engine is 'cloud'. Choose one of local, ray"):
        make_engine("cloud")


def test_ray_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(uqled.InputError, match=r"pip install 'uqled\[ray\]'"):
        make_engine("ray")
