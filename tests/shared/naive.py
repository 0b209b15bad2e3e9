"""Slow, obvious twins of the kernels and of every method: loops that read like SPEC's sentences."""

from __future__ import annotations

import math

import numpy as np

SLACK = 1e-6


def entropy(row):
    return -sum(p * math.log(p) for p in map(float, row) if p > 0)


def mean_of_passes(passes):
    F, N, K = passes.shape
    out = np.zeros((N, K))
    for n in range(N):
        for k in range(K):
            total = float(passes[0, n, k])
            for f in range(1, F):
                total += float(passes[f, n, k])
            out[n, k] = total / F
    return out


def mutual_information(passes):
    mean = mean_of_passes(passes)
    F, N, _ = passes.shape
    return [entropy(mean[n]) - sum(entropy(passes[f, n]) for f in range(F)) / F for n in range(N)]


def argmax(row):
    return max(range(len(row)), key=lambda j: (float(row[j]), -j))


def agrees(row, label):
    raised_row = [float(p) for p in row]
    raised_row[label] += SLACK
    return argmax(raised_row) == label


def thresholds(labels, probs):
    K = probs.shape[1]
    result = []
    for j in range(K):
        self_confidence = [
            float(p[j]) for p, label in zip(probs, labels, strict=True) if label == j
        ]
        result.append(
            max(sum(self_confidence) / len(self_confidence), 2 * SLACK) if self_confidence else 2.0
        )
    return result


def margin(row):
    first, second = sorted(map(float, row), reverse=True)[:2]
    return first - second


def variation_ratios(passes):
    F, N, _ = passes.shape
    ratios = []
    for n in range(N):
        votes = [argmax(passes[f, n]) for f in range(F)]
        ratios.append(1 - max(votes.count(vote) for vote in votes) / F)
    return ratios


def deviations(passes):
    mean = mean_of_passes(passes)
    F, N, _ = passes.shape
    class_deviations = []
    for n in range(N):
        best = argmax(mean[n])
        pass_values = [float(passes[f, n, best]) for f in range(F)]
        class_deviations.append(
            math.sqrt(sum((p - sum(pass_values) / F) ** 2 for p in pass_values) / F)
        )
    return class_deviations


def class_means(labels, values, K):
    means = []
    for c in range(K):
        class_values = [value for value, label in zip(values, labels, strict=True) if label == c]
        means.append(sum(class_values) / len(class_values) if class_values else 0.0)
    return means


def entropy_limits(labels, probs):
    return class_means(labels, [entropy(p) for p in probs], probs.shape[1])


def guesses(labels, probs, entropy_class=None, values=None):
    """The guessed true class of each sample, or -1.

    `values` are the uncertainties to limit, the entropies if not given.
    """
    if values is None:
        values = [entropy(p) for p in probs]
    t, limits = thresholds(labels, probs), class_means(labels, values, probs.shape[1])
    result = []
    for p, label, value in zip(probs, labels, values, strict=True):

        def is_confident(j, value=value, label=label):
            if entropy_class is None:
                return True
            return value <= limits[j if entropy_class == "candidate" else label] + SLACK

        confident = [j for j in range(len(p)) if float(p[j]) >= t[j] - SLACK and is_confident(j)]
        if not confident:
            result.append(-1)
        elif len(confident) == 1:
            result.append(confident[0])
        else:
            result.append(argmax(p))
    return result


def confident_joint(labels, guess, K):
    joint = [[0] * K for _ in range(K)]
    for label, true in zip(labels, guess, strict=True):
        if true >= 0:
            joint[label][true] += 1
    for k in range(K):
        joint[k][k] = max(joint[k][k], 1)
    return joint


def calibrate(joint, labels):
    K = len(joint)
    result = []
    for i in range(K):
        n, total = sum(1 for label in labels if label == i), sum(joint[i])
        exact = [c * n / total for c in joint[i]]
        floors = [(c * n) // total for c in joint[i]]
        remainder = [round(e - w, 9) for e, w in zip(exact, floors, strict=True)]
        for j in sorted(range(K), key=lambda j: (-remainder[j], j))[: n - sum(floors)]:
            floors[j] += 1
        result.append(floors)
    return result


def quotas(joint, labels, min_examples=1, frac_noise=1.0):
    """(numbers per pair [given][true], numbers per class)."""
    K = len(joint)
    pairs, classes = [], []
    for i in range(K):
        n = sum(1 for label in labels if label == i)
        new_diagonal = max(joint[i][i], min_examples)
        nonzero = max(sum(1 for c in joint[i] if c) - 1, 1)
        reduction = (new_diagonal - joint[i][i]) / nonzero
        off = [max(c - reduction, 0.0) if j != i else 0.0 for j, c in enumerate(joint[i])]
        flag_counts = [c * frac_noise for c in off]
        n_staying = int(new_diagonal + sum(o - f for o, f in zip(off, flag_counts, strict=True)))
        is_large_enough = n > min_examples
        pairs.append([int(f) if is_large_enough else 0 for f in flag_counts])
        classes.append(max(n - n_staying, 0) if is_large_enough else 0)
    return pairs, classes


def best_of_pair(labels, probs, i, j, number):
    """Indices of the `number` samples given i with the largest margin of j, lower index first."""
    margin = {
        z: float(p[j]) - float(p[i])
        for z, (p, label) in enumerate(zip(probs, labels, strict=True))
        if label == i
    }
    return sorted(margin, key=lambda z: (-margin[z], z))[:number]


def cl_pbnr(labels, probs, entropy_class=None, min_examples=1, frac_noise=1.0, values=None):
    K = probs.shape[1]
    guess = guesses(labels, probs, entropy_class, values)
    joint = calibrate(confident_joint(labels, guess, K), labels)
    pairs, _ = quotas(joint, labels, min_examples, frac_noise)
    flags = set()
    for i in range(K):
        for j in range(K):
            flags.update(best_of_pair(labels, probs, i, j, pairs[i][j]))
    return np.array([z in flags and not agrees(probs[z], labels[z]) for z in range(len(labels))])


def cl_pbc(labels, probs, min_examples=1, frac_noise=1.0):
    K = probs.shape[1]
    joint = calibrate(confident_joint(labels, guesses(labels, probs), K), labels)
    _, numbers = quotas(joint, labels, min_examples, frac_noise)
    flags = set()
    for i in range(K):
        class_rows = [z for z in range(len(labels)) if labels[z] == i]
        flags.update(sorted(class_rows, key=lambda z: (float(probs[z][i]), z))[: numbers[i]])
    return np.array([z in flags and not agrees(probs[z], labels[z]) for z in range(len(labels))])


def cl_joint(labels, probs):
    guess = guesses(labels, probs)
    return np.array(
        [
            g >= 0 and g != label and not agrees(p, label)
            for g, label, p in zip(guess, labels, probs, strict=True)
        ]
    )


def lowest(scores, number):
    order = sorted(range(len(scores)), key=lambda z: (scores[z], z))[:number]
    return np.array([z in set(order) for z in range(len(scores))])


def all_methods(labels, softmax, passes, entropy_class="candidate"):
    """The mask of every method by its name."""
    mean = mean_of_passes(passes)
    pbnr = cl_pbnr(labels, softmax)
    mcd, mcd_e = cl_pbnr(labels, mean), cl_pbnr(labels, mean, entropy_class)
    members = [cl_pbnr(labels, one) for one in passes]
    ens = np.array([2 * sum(m[z] for m in members) > len(members) for z in range(len(labels))])
    votes = np.sum([pbnr, mcd, mcd_e, ens], axis=0)
    pbc, joint = cl_pbc(labels, softmax), cl_joint(labels, softmax)
    self_confidence = [float(p[label]) for p, label in zip(softmax, labels, strict=True)]
    margin = [
        float(p[label]) - max(float(q) for j, q in enumerate(p) if j != label)
        for p, label in zip(softmax, labels, strict=True)
    ]
    return {
        "cl-pbnr": pbnr,
        "cl-mcd": mcd,
        "cl-mcd-e": mcd_e,
        "cl-mcd-ens": ens,
        "alg-ens-3": votes >= 3,
        "alg-ens-2": votes >= 2,
        "cl-pbc": pbc,
        "cl-both": pbnr & pbc,
        "cl-joint": joint,
        "argmax": np.array([not agrees(p, g) for p, g in zip(softmax, labels, strict=True)]),
        "argmax-mean": np.array([not agrees(p, g) for p, g in zip(mean, labels, strict=True)]),
        "low-self-confidence": lowest(self_confidence, int(joint.sum())),
        "low-normalized-margin": lowest(margin, int(joint.sum())),
    }


def limited_methods(labels, passes, entropy_class="candidate"):
    """The masks of the family of CL-MCD-E: the same with a limit of another uncertainty.

    A margin must be at least the class's mean, so it is compared with a minus sign.
    """
    mean = mean_of_passes(passes)
    uncertainties = {
        "cl-mcd-e": [entropy(row) for row in mean],
        "cl-mcd-m": [-margin(row) for row in mean],
        "cl-mcd-mi": mutual_information(passes),
        "cl-mcd-vr": variation_ratios(passes),
        "cl-mcd-sd": deviations(passes),
    }
    return {
        name: cl_pbnr(labels, mean, entropy_class, values=values)
        for name, values in uncertainties.items()
    }


def best_other(probs, label):
    """The most probable class beside the given one, of equals the lower."""
    return max((j for j in range(len(probs)) if j != label), key=lambda j: (probs[j], -j))


def contradictions(passes, labels):
    """How often a pass contradicts the label, and how often two passes contradict each other."""
    predicted = [[max(range(len(p)), key=lambda j: (p[j], -j)) for p in one] for one in passes]
    with_label = sum(g != y for one in predicted for g, y in zip(one, labels, strict=True))
    pairs = [(f, g) for f in range(len(passes)) for g in range(f)]
    with_each_other = sum(
        predicted[f][z] != predicted[g][z] for f, g in pairs for z in range(len(labels))
    )
    return with_label, with_each_other


def raise_to_power(probs, label, power):
    """The given class's probability, where all are raised to a power and their sum is 1 again."""
    powers = [math.exp(power * math.log(p)) for p in probs]
    return powers[label] / sum(powers)


def band_counts(labels, probs, bands, least_rows):
    """Per band: samples and labels [K,K] of (predicted class, other class)."""
    K = len(probs[0])
    samples, hits = np.zeros((2, len(bands), K, K))
    predicted = [best_other(p, -1) for p in probs]
    for t in range(K):
        guessed_rows = [z for z, g in enumerate(predicted) if g == t]
        if len(guessed_rows) < least_rows:
            continue
        for y in range(K):
            if y == t:
                continue
            column = sorted(probs[z][y] for z in guessed_rows)
            limits = [column[math.ceil(part * len(guessed_rows)) - 1] for part in bands]
            for z in guessed_rows:
                band = next((b for b, limit in enumerate(limits) if probs[z][y] <= limit), None)
                if band is not None:
                    samples[band, t, y] += 1
                    hits[band, t, y] += labels[z] == y
    return samples, hits
