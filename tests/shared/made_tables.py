"""Tables as people have them, made small: spam, penguins, titanic, titles with descriptions."""

from __future__ import annotations

import numpy as np
import pandas as pd

WORDS = {
    "sport": ["goal", "match", "team", "coach", "league", "score", "player", "season"],
    "money": ["market", "stock", "bank", "price", "trade", "profit", "share", "rate"],
    "world": ["minister", "election", "border", "treaty", "army", "vote", "crisis", "city"],
}
COMMON_WORDS = ["the", "a", "of", "in", "on", "after", "new", "with", "for", "at", "and"]


def make_sentence(rng, topic, length):
    topic_words = rng.choice(WORDS[topic], length // 2)
    rest = rng.choice(COMMON_WORDS, length - length // 2)
    return " ".join(rng.permutation([*topic_words, *rest]))


def make_news(n=120, seed=0):
    """`label,title,description`, as news data sets have them."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(list(WORDS), n)
    return pd.DataFrame(
        {
            "label": labels,
            "title": [make_sentence(rng, topic, 5) for topic in labels],
            "description": [make_sentence(rng, topic, 16) for topic in labels],
        }
    )


def make_spam(n=120, seed=0):
    """`v1,v2` and three nearly empty columns, in latin-1, as the well-known spam.csv."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(["ham", "spam"], n, p=[0.7, 0.3])
    topics = np.where(labels == "spam", "money", "sport")
    frame = pd.DataFrame(
        {"v1": labels, "v2": [f"{make_sentence(rng, topic, 12)} \u00a35" for topic in topics]}
    )
    for at in (2, 3, 4):
        column = np.full(n, None, dtype=object)
        column[rng.integers(n, size=2)] = "GN"
        frame[f"Unnamed: {at}"] = column
    return frame


def make_penguins(n_each=40, seed=0):
    """Sorted by species, with a few missing values and one category."""
    rng = np.random.default_rng(seed)
    species = np.repeat(["Adelie", "Chinstrap", "Gentoo"], n_each)
    centre = {"Adelie": (38, 190), "Chinstrap": (49, 196), "Gentoo": (47, 217)}
    bill = np.array([rng.normal(centre[s][0], 1.5) for s in species]).round(1)
    flipper = np.array([rng.normal(centre[s][1], 4) for s in species]).round()
    bill[5] = flipper[7] = np.nan
    return pd.DataFrame(
        {
            "species": species,
            "island": rng.choice(["Biscoe", "Dream", "Torgersen"], len(species)),
            "bill_length_mm": bill,
            "flipper_length_mm": flipper,
            "sex": rng.choice(["MALE", "FEMALE", None], len(species)),
        }
    )


def make_titanic(n=150, seed=0):
    """Ids, names, tickets, a column that gives the label away, and real features."""
    rng = np.random.default_rng(seed)
    is_survivor = rng.integers(2, size=n)
    sex = np.where(rng.random(n) < 0.85, np.where(is_survivor, "female", "male"), "male")
    names = ["Braund", "Cumings", "Heikkinen", "Allen", "Moran", "Palsson", "Nasser"]
    return pd.DataFrame(
        {
            "PassengerId": rng.permutation(n) + 1,
            "survived": is_survivor,
            "pclass": rng.integers(1, 4, n),
            "name": [
                f"{rng.choice(names)}, {'Mrs.' if s == 'female' else 'Mr.'} {rng.choice(names)} "
                f"{rng.choice(names)} {chr(65 + i % 26)}"
                for i, s in enumerate(sex)
            ],
            "sex": sex,
            "age": np.where(rng.random(n) < 0.2, np.nan, rng.integers(1, 80, n)),
            "ticket": [f"{rng.choice(['A/5', 'PC', 'C.A.'])}{i * 37 % 9973}" for i in range(n)],
            "alive": np.where(is_survivor, "yes", "no"),
        }
    )


def make_adult(n=150):
    """A space behind each comma, and ? for what is missing, as the well-known adult.data."""
    rng = np.random.default_rng(0)
    income = rng.choice(["<=50K", ">50K"], n)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "workclass": rng.choice(["Private", "Self-emp-inc", "?"], n),
            "fnlwgt": rng.integers(10_000, 900_000, n),
            "education-num": np.where(income == ">50K", 12, 8) + rng.integers(-3, 4, n),
            "hours-per-week": rng.integers(10, 90, n),
            "income": income,
        }
    )


def make_mushrooms(n=160):
    """Nothing but categories."""
    rng = np.random.default_rng(0)
    label = np.sort(rng.choice(["edible", "poisonous"], n))
    odour = np.where(
        label == "edible", rng.choice(["none", "anise"], n), rng.choice(["foul", "none"], n)
    )
    return pd.DataFrame(
        {
            "class": label,
            "odour": odour,
            "cap": rng.choice(["flat", "bell", "conic"], n),
            "ring": np.where(
                rng.random(n) < 0.8, np.where(label == "edible", "one", "two"), "none"
            ),
        }
    )
