"""Checkpoints of a training: written atomically, and used only if they fit the network.

A checkpoint only saves time. If it is damaged, edited or of another network, it is ignored and the
training starts over, with the same result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from uqled.errors import FileError
from uqled.storage.atomic import replace_file
from uqled.storage.reading import first_line, name_file
from uqled.storage.tensor_files import read_tensors

CHECKPOINT = "checkpoint.pt"

#: Epoch, mean loss, accuracy.
History = list[tuple[int, float, float]]

_KEYS = {"model", "optimiser", "epochs", "history"}


def write_checkpoint(
    folder: Path, module: nn.Module, optimiser: Any, epochs: int, history: History
) -> None:
    """Save the state of a training, in place of the previous checkpoint."""
    state = {
        "model": module.state_dict(),
        "optimiser": optimiser.state_dict(),
        "epochs": epochs,
        "history": [list(row) for row in history],
    }
    path = folder / CHECKPOINT
    with replace_file(path) as part:
        try:
            torch.save(state, part)
        except RuntimeError as error:  # torch's error for any disk problem
            raise FileError(
                name_file(path),
                f"cannot be written ({first_line(error)})",
                "Free some space on the disk, or choose another folder; what was there before is "
                "unchanged",
            ) from error


def resume_training(
    path: Path, model: nn.Module, optimiser: Any, *, epochs: int, device: Any, is_sgd: bool
) -> tuple[int, History]:
    """(finished epochs, their history), with weights and optimiser as they were then.

    (0, []), and nothing changed, without a checkpoint that fits a training of this many epochs.
    `is_sgd`: the optimiser is ours, whose state is known.
    """
    content = read_checkpoint(path, device)
    if content is None or not (
        fits_model(content["model"], model)
        and _fits_optimiser(content["optimiser"], optimiser, is_sgd)
        and _is_history(content["history"], content["epochs"], epochs)
    ):
        return 0, []
    try:
        optimiser.load_state_dict(content["optimiser"])
    except Exception:  # the user's own optimiser
        return 0, []
    model.load_state_dict(content["model"])
    return content["epochs"], [tuple(row) for row in content["history"]]


def read_checkpoint(path: Path, device: Any) -> dict[str, Any] | None:
    """The content of a checkpoint file; None for any other file, or none.

    Tensors, numbers, texts, lists and dictionaries only: `weights_only` builds nothing else.
    """
    try:
        content = read_tensors(path, device)
    except FileError:
        return None
    return content if isinstance(content, dict) and content.keys() == _KEYS else None


def fits_model(checkpoint: Any, model: nn.Module) -> bool:
    """Whether these are weights of this network."""
    weights = model.state_dict()
    return (
        isinstance(checkpoint, dict)
        and checkpoint.keys() == weights.keys()
        and all(_is_compatible(checkpoint[name], weights[name]) for name in weights)
    )


def _is_compatible(checkpoint: Any, value: Any) -> bool:
    if not isinstance(value, Tensor):  # state other than weights
        return type(checkpoint) is type(value)
    return (
        isinstance(checkpoint, Tensor)
        and checkpoint.layout == torch.strided
        and checkpoint.shape == value.shape
        and checkpoint.dtype == value.dtype
    )


def _fits_optimiser(checkpoint: Any, optimiser: Any, is_sgd: bool) -> bool:
    own_groups = optimiser.state_dict()["param_groups"]
    if not isinstance(checkpoint, dict) or checkpoint.keys() != {"state", "param_groups"}:
        return False
    groups, state = checkpoint["param_groups"], checkpoint["state"]
    if (
        not isinstance(groups, list)
        or len(groups) != len(own_groups)
        or not isinstance(state, dict)
    ):
        return False
    if not all(
        _fits_group(group, own_group) for group, own_group in zip(groups, own_groups, strict=True)
    ):
        return False
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    return all(
        type(i) is int
        and 0 <= i < len(parameters)
        and isinstance(entries, dict)
        and (not is_sgd or _is_momentum(entries, parameters[i]))
        for i, entries in state.items()
    )


def _fits_group(checkpoint: Any, group: dict[str, Any]) -> bool:
    if not isinstance(checkpoint, dict) or checkpoint.keys() != group.keys():
        return False
    number = (int, float)
    return checkpoint["params"] == group["params"] and all(
        type(checkpoint[name]) is type(value)
        or (type(checkpoint[name]) in number and type(value) in number)
        for name, value in group.items()
    )


def _is_momentum(entries: dict[str, Any], parameter: Tensor) -> bool:
    return all(
        name == "momentum_buffer" and (value is None or _is_compatible(value, parameter))
        for name, value in entries.items()
    )


def _is_history(history: Any, n_finished: Any, epochs: int) -> bool:
    return (
        type(n_finished) is int
        and 1 <= n_finished <= epochs
        and isinstance(history, list)
        and len(history) == n_finished
        and all(
            isinstance(row, list)
            and [type(value) for value in row] == [int, float, float]
            and row[0] == epoch
            for epoch, row in enumerate(history, start=1)
        )
    )
