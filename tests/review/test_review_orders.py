"""The orders and tiers of the review page, against what they are said to be."""

from __future__ import annotations

import csv

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from review_client import Client
from review_runs import image_run, list_decisions, open_session
from uqled.detect.auto.tiers import TIERS, AgreedShare
from uqled.review.audits import open_audit, read_audit_verdicts
from uqled.review.flag_list import ListQuery
from uqled.review.orders import measure_worth
from uqled.review.serve import serve_review


def list_page(client, query):
    return [row["index"] for row in client.json(f"api/samples?size=500&{query}")["samples"]]


def test_each_tier_lists_its_samples(tmp_path):
    run = image_run(tmp_path, N=400, margin=3.0)
    session, errors = open_session(run)
    with serve_review(run, port=0) as address:
        client = Client(address)
        listed_samples = {
            name: list_page(client, f"tier={name.replace(' ', '+')}") for name in TIERS
        }
        counts = {one["name"]: one["n"] for one in client.json("api/start")["overview"]["tiers"]}
        first = listed_samples["worth a look"][0]
        client.decide([first, "keep", None])
        assert list_page(client, "tier=worth+a+look")[0] == first  # decided ones stay in front
        start = client.json("api/samples?tier=worth+a+look&from=queue")
        assert start["before"] == 1
        assert client.get("api/samples?tier=other")[0] == 400
    for name in TIERS:
        expected = np.flatnonzero(errors.tier == name)
        by_score = expected[np.argsort(errors.scores[expected], kind="stable")]
        assert listed_samples[name] == by_score.tolist()
        assert counts[name] == len(expected)
    assert not errors.mask[listed_samples["worth a look"]].any()
    session.decisions.close()


def test_a_tier_says_what_to_expect_of_its_undecided_samples(tmp_path):
    session, errors = open_session(image_run(tmp_path, N=400, margin=3.0))
    flags = session.get_list(None)
    certain_samples = np.flatnonzero(errors.tier_numbers == 0)
    session.decisions.decide([(int(i), "drop", None) for i in certain_samples[:-5]], reviewer="ana")
    session.update()
    left = (flags.tier_numbers == 0) & (session.state.actions == 0)
    tier = flags.count_overview()["tiers"][0]
    # What such flags are elsewhere, and the verdicts on those here, all of which are wrong.
    history = AgreedShare.of_agreement(flags.current.estimate.agreement)
    share = AgreedShare(history.wrong + len(certain_samples) - 5, history.right)
    expected = share.predict(int(left.sum()))
    assert (tier["name"], tier["n"]) == (TIERS[0], int(left.sum()))
    assert tier["share"] == pytest.approx(vars(expected))
    assert tier["share"]["low"] < 1  # nobody decided about these
    rest = flags.list_undecided()
    session.decisions.decide([(int(i), "drop", None) for i in rest], reviewer="ana")
    session.update()
    while len(rest := flags.list_undecided()):  # the list follows
        session.decisions.decide([(int(i), "drop", None) for i in rest], reviewer="ana")
        session.update()
    assert flags.count_overview()["tiers"][0] == {"name": TIERS[0], "n": 0, "share": None}
    session.decisions.close()


def test_the_verdict_that_tells_most_comes_first(tmp_path):
    session, errors = open_session(image_run(tmp_path, N=600, margin=2.5))
    flags = session.get_list(None)
    undecided = flags.list_undecided()
    p = errors.probability
    pairs = list(zip(errors.labels.codes.tolist(), errors.best.tolist(), strict=True))
    worth = measure_worth(flags, undecided)
    for at, i in enumerate(undecided.tolist()):  # by its definition, one by one
        similar_samples = [j for j in undecided.tolist() if pairs[j] == pairs[i]]
        more_uncertain = [j for j in similar_samples if p[j] * (1 - p[j]) > p[i] * (1 - p[i])]
        expected = p[i] * (1 - p[i]) * len(similar_samples) / (1 + len(more_uncertain))
        assert worth[at] == pytest.approx(expected)
    order = flags.order(ListQuery("auto", order="worth"))
    assert sorted(order) == sorted(undecided)
    best = int(order[0])
    session.decisions.decide([(best, "keep", None)], reviewer="ana")
    session.update()
    after = flags.order(ListQuery("auto", order="worth"))
    assert after[0] == best  # decided: it stays where it was
    similar_samples = [j for j in after[1:].tolist() if pairs[j] == pairs[best]]
    if similar_samples:  # a second verdict on the same pair tells less
        now = measure_worth(flags, np.array(similar_samples))[0]
        assert now < p[similar_samples[0]] * (1 - p[similar_samples[0]]) * len(similar_samples)
    session.decisions.close()


def test_an_audit_on_the_page_is_that_of_the_command(tmp_path):
    run = image_run(tmp_path)
    predictions = run.predictions()
    with serve_review(run, port=0) as address:
        client = Client(address)
        assert client.json("api/estimates")["audit"] is None
        assert not (run.path / "audit.json").exists()  # asking writes nothing
        assert client.get("api/audit")[0] == 405
        status, answer = client.post("api/audit", {})
        assert (status, answer["audit"]["judged"]) == (200, 0)
        listed_samples = list_page(client, "order=audit")
        for i in listed_samples[:6]:
            action = "keep" if predictions.truth[i] == predictions.labels.codes[i] else "drop"
            client.decide([i, action, None])
        page_audit = client.json("api/estimates")["audit"]
    from uqled.detect.auto.audit import estimate_audit
    from uqled.detect.find import find_label_errors

    errors = find_label_errors(predictions)
    audit = open_audit(run.path, errors, predictions.ids, 1, 99)  # goes on with the same
    assert audit.indices.tolist() == listed_samples
    result = estimate_audit(errors, audit, read_audit_verdicts(predictions))
    assert page_audit["errors"] == pytest.approx(vars(result.n_errors[0.8]))
    assert (page_audit["judged"], page_audit["wrong"]) == (6, result.n_wrong)
    with serve_review(run, port=0) as address:  # it is there again
        assert list_page(Client(address), "order=audit") == listed_samples


# ---- merged classes

RANDOM_ORDERS = ("random", "hundred", "audit")


@pytest.fixture
def merged_pair(tmp_path):
    """A run, the pair of classes with the most flags, and which samples lie between them."""
    run = image_run(tmp_path, N=400, margin=2.5)
    session, errors = open_session(run)
    session.decisions.close()
    given, suggested = errors.ranked_pairs[0][:2]
    suggested_codes = errors.suggested_codes
    classes = np.sort([errors.labels.codes, suggested_codes], axis=0)
    between = (classes == np.sort([given, suggested])[:, None]).all(axis=0)
    return run, (given, suggested), set(np.flatnonzero(between).tolist())


def merge(client, pair, action="merge"):
    body = {"index": pair[0], "action": action, "target": pair[1], "reviewer": "ana"}
    assert client.post("api/class", body)[0] == 200


def test_random_orders_leave_out_flags_between_merged_classes(merged_pair):
    run, pair, between = merged_pair
    with serve_review(run, port=0) as address:
        client = Client(address)
        client.post("api/audit", {})
        before = {order: list_page(client, f"order={order}") for order in RANDOM_ORDERS}
        decided = next(i for i in before["hundred"] if i in between)
        client.decide([decided, "keep", None])
        merge(client, pair)
        for order in RANDOM_ORDERS:
            expected = [i for i in before[order] if i not in between or i == decided]
            assert len(expected) < len(before[order]), order
            after = list_page(client, f"order={order}")
            assert after[: len(expected)] == expected, order
            assert not (between - {decided}) & set(after), order
        assert len(list_page(client, "order=hundred")) == min(
            100, len(list_page(client, "order=random"))
        )
        merge(client, pair, action=None)
        assert {order: list_page(client, f"order={order}") for order in RANDOM_ORDERS} == before


def test_an_audit_counts_what_was_merged_without_asking(merged_pair):
    run, pair, between = merged_pair
    with serve_review(run, port=0) as address:
        client = Client(address)
        client.post("api/audit", {})
        drawn = list_page(client, "order=audit")
        settled = between & set(drawn)
        relabelled = min(settled)
        codes, truth = run.predictions().labels.codes, run.predictions().truth
        other = pair[1] if codes[relabelled] == pair[0] else pair[0]
        client.decide([relabelled, "relabel", int(other)])
        assert client.json("api/estimates")["audit"]["wrong"] == 1
        merge(client, pair)
        audit = client.json("api/estimates")["audit"]
        assert (audit["n"], audit["judged"]) == (len(drawn) - len(settled), 0)
        for i in list_page(client, "order=audit"):
            if i != relabelled:
                client.decide([i, "keep" if codes[i] == truth[i] else "drop", None])
        audit = client.json("api/estimates")["audit"]
        rest = [i for i in drawn if i not in settled]
        assert (audit["n"], audit["judged"]) == (len(rest), len(rest))
        assert audit["wrong"] == sum(codes[i] != truth[i] for i in rest)
        assert settled - {relabelled} == settled - set(list_decisions(run))  # nobody was asked


def test_the_file_of_a_new_audit_has_nothing_that_is_settled(merged_pair):
    run, pair, between = merged_pair
    with serve_review(run, port=0) as address:
        client = Client(address)
        merge(client, pair)
        client.post("api/audit", {})
        listed = list_page(client, "order=audit")
    with (run.path / "audit.csv").open(newline="") as file:
        rows = [int(row["index"]) for row in csv.DictReader(file)]
    assert rows == listed
    assert not between & set(rows)
