"""Reads labelled data from memory: frames, arrays, lists, data sets of other libraries."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from uqled.arrays import to_numpy
from uqled.data.classes import encode_column
from uqled.data.dataset import Dataset
from uqled.data.frames import is_hugging_face, is_record_batch, refuse_lazy_frame
from uqled.data.image_cache import EncodedImages
from uqled.data.images import is_image_name
from uqled.data.raw_dataset import (
    ObjectName,
    RawDataset,
    choose_split,
    make_ids,
    make_object_array,
    note_split,
)
from uqled.data.reader import ReadRequest
from uqled.data.readers.hub import read_class_names
from uqled.data.spellings import merge_spellings
from uqled.data.tables.byte_columns import decode_byte_objects
from uqled.data.tables.table import Table, make_arrow_table, read_table
from uqled.data.tables.table_images import read_image_file
from uqled.errors import InputError, UqledError
from uqled.limits import check_limit
from uqled.storage.reading import first_line

_SUPPORTED_OBJECTS = (
    "Pass a path, a pandas, polars or Arrow frame, a Hugging Face Dataset, a torch Dataset or "
    "DataLoader, an array, a list of texts or a list of paths of images"
)
#: The name of the label column if labels are passed separately from the frame.
_LABEL_COLUMN = "label"

#: Samplers of torch whose rows change from one epoch to the next.
_RANDOM_SAMPLERS = {
    "DistributedSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler",
}  # fmt: skip


def is_path_or_name(place: Any) -> bool:
    """Whether samples are named by a path or by the name of a data set."""
    return isinstance(place, str | os.PathLike)


def read_object(samples: Any, request: ReadRequest, label: Any) -> RawDataset:
    """Read samples from an object; `label` is a column name, or the labels themselves."""
    try:
        raw = _read_object(samples, replace(request, label=None), label)
    except UqledError:
        raise
    except Exception as error:  # objects of other libraries can raise anything
        problem = f"is a {type(samples).__name__} that cannot be read ({first_line(error)})"
        raise InputError("place", problem, _SUPPORTED_OBJECTS) from error
    return merge_spellings(raw) if request.spellings == "merge" else raw


def _read_object(samples: Any, request: ReadRequest, label: Any) -> RawDataset:
    if is_hugging_face(samples):
        return _read_hugging_face(samples, request, label)
    if isinstance(samples, Mapping):
        return _read_mapping(samples, request, label)
    if is_record_batch(samples):
        import pyarrow as pa

        samples = pa.Table.from_batches([samples])
    if hasattr(samples, "tocsr"):
        raise InputError(
            "place", f"is a sparse {type(samples).__name__}", "Make it dense: data.toarray()"
        )
    frame = _convert_frame(samples)
    if frame is not None:
        return _read_frame(frame, samples, request, label)
    if hasattr(samples, "to_pylist"):  # an array of Arrow
        samples = samples.to_pylist()
    elif isinstance(samples, Sequence) and label is not None and not isinstance(samples, bytes):
        samples = samples if isinstance(samples, tuple) else list(samples)  # a column of `datasets`
    if isinstance(samples, list | tuple) or _is_array(samples):
        return _read_sequence(samples, label)
    if isinstance(samples, bytes | bytearray):
        raise InputError("place", f"is a {type(samples).__name__}", _SUPPORTED_OBJECTS)
    if hasattr(samples, "__getitem__") or (hasattr(samples, "dataset") and _is_iterable(samples)):
        return _read_torch(samples, label)
    raise InputError("place", f"is a {type(samples).__name__}", _SUPPORTED_OBJECTS)


def _convert_frame(samples: Any) -> Any | None:
    """Convert a frame of any library, or named records, to pandas; None for anything else."""
    import narwhals as nw
    import pandas as pd

    is_list = isinstance(samples, list | tuple) and len(samples) > 0
    if is_list and all(isinstance(one, Mapping) for one in samples):
        return pd.DataFrame(list(samples))
    if isinstance(samples, np.ndarray) and samples.dtype.names:
        return pd.DataFrame.from_records(samples)
    if isinstance(samples, pd.DataFrame) or _is_arrow(samples):
        names = samples.columns if isinstance(samples, pd.DataFrame) else samples.column_names
        if duplicates := [name for name, n in Counter(names).items() if n > 1]:
            raise InputError(
                "place",
                f"is a {type(samples).__name__} with two columns {str(duplicates[0])!r}",
                "Rename one of them",
            )
    frame = nw.from_native(samples, pass_through=True, eager_only=False)
    if isinstance(frame, nw.LazyFrame):
        refuse_lazy_frame("place", samples, frame.implementation)
    return frame.to_pandas() if isinstance(frame, nw.DataFrame) else None


def _read_frame(frame: Any, samples: Any, request: ReadRequest, label: Any) -> RawDataset:
    index, name = frame.index, ObjectName(f"the {type(samples).__name__}")
    _check_order(label, index, has_index=hasattr(samples, "index"))
    frame = decode_byte_objects(_use_plain_types(frame.reset_index(drop=True)))
    if _is_arrow(samples):  # pandas' index in it is not a column; rows are numbered
        index = frame.index
    frame.columns = [str(column) for column in frame.columns]
    images: dict[str, Any] = {}
    class_names: dict[str, list[str]] = {}
    if _is_arrow(samples):
        class_names = read_class_names(samples.schema, str(name))
        arrow = make_arrow_table(samples, name, class_names)
        frame, images = arrow.frame, arrow.images
    request, frame = _attach_label(request, frame, label)
    table = Table(
        name, Path(), frame, lambda columns: frame[columns], images, class_names, index=index
    )
    return read_table(table, request)


def _use_plain_types(frame: Any) -> Any:
    """Convert columns of Arrow or nullable types to NumPy types."""
    import pandas as pd

    plain_frame = frame.copy(deep=False)
    for at, dtype in enumerate(frame.dtypes):
        is_plain = isinstance(dtype, np.dtype | pd.CategoricalDtype) or str(dtype) == "str"
        if not is_plain and getattr(dtype, "kind", "O") != "M":
            column = frame.iloc[:, at].astype(object)
            plain_frame.isetitem(at, column.where(column.notna(), None).infer_objects())
    return plain_frame


def _attach_label(request: ReadRequest, frame: Any, label: Any) -> tuple[ReadRequest, Any]:
    """Return the request with the label's column, and the frame including that column."""
    if label is None or isinstance(label, str):
        return replace(request, label=label), frame
    if isinstance(label, int | np.integer):  # a column without a name
        return replace(request, label=str(label)), frame
    labels = _list_labels(label, len(frame))
    name = str(getattr(label, "name", None) or _LABEL_COLUMN)
    while name in frame.columns:
        name = f"{name}_"
    return replace(request, label=name), frame.assign(**{name: labels})


def _check_order(label: Any, index: Any, *, has_index: bool) -> None:
    """Refuse a pandas Series of the frame's rows in another order: it is taken by position."""
    other: Any = getattr(label, "index", None)
    if not hasattr(other, "sort_values"):  # a pandas index; lists have `sort`, too
        return
    if len(other) == len(index) and not other.equals(index):
        try:
            is_reordered = other.sort_values().equals(index.sort_values())
        except TypeError:  # entries that cannot be ordered
            is_reordered = set(other) == set(index)
        if is_reordered:
            suggestion = "label.loc[frame.index]" if has_index else "label.sort_index()"
            raise InputError(
                "label",
                "is a Series whose index has the rows in another order",
                f"Pass {suggestion}, or label.to_numpy() if the order is right as it is",
            )


def _list_labels(label: Any, n: int) -> list[Any]:
    labels = to_numpy(label, "label").tolist()
    if not isinstance(labels, list) or len(labels) != n:
        count = len(labels) if isinstance(labels, list) else 1
        raise InputError("label", f"has {count:,} entries for {n:,} samples", "Give one per sample")
    return labels


def _read_hugging_face(samples: Any, request: ReadRequest, label: Any) -> RawDataset:
    """Read a `datasets.Dataset`; images stay encoded and class names are kept."""
    if not hasattr(samples, "__len__"):
        raise InputError(
            "place",
            f"is an {type(samples).__name__}, which streams its rows",
            "Load it without streaming, or take some: Dataset.from_list(list(data.take(N)))",
        )
    table = samples.with_format("arrow")[:]
    table = table.replace_schema_metadata(samples.features.arrow_schema.metadata)
    name = ObjectName("the Dataset")
    arrow = make_arrow_table(table, name, read_class_names(table.schema, str(name)))
    if label is not None and not isinstance(label, str):
        request, frame = _attach_label(request, arrow.frame, label)
        arrow = replace(arrow, frame=frame, read_strings=lambda columns: frame[columns])
    else:
        request = replace(request, label=label)
    return read_table(arrow, request)


def _read_mapping(samples: Mapping[Any, Any], request: ReadRequest, label: Any) -> RawDataset:
    """Read a mapping of splits, or of columns."""
    import pandas as pd

    if samples and all(is_hugging_face(one) for one in samples.values()):
        split = choose_split(request.split, list(map(str, samples)), ObjectName("the data"))
        raw = _read_hugging_face(samples[split], replace(request, split=None), label)
        notes = note_split(split, list(map(str, samples)), request.split)
        return replace(raw, notes=(*raw.notes, *notes))
    frame = pd.DataFrame(dict(samples))
    return _read_frame(frame, samples, request, label)


def _read_sequence(samples: Any, label: Any) -> RawDataset:
    """Read an array, a list of texts, or a list of image paths."""
    if isinstance(samples, list | tuple) and _are_paths(samples):
        files = [os.path.abspath(Path(path).expanduser()) for path in samples]  # noqa: PTH100
        labels = [Path(f).parent.name for f in files] if label is None else label
        images = EncodedImages(read_image_file, make_object_array(files), Path)
        codes = encode_column(np.asarray(_list_labels(labels, len(files))), name="label")
        return RawDataset("images", images, codes, make_ids(samples))
    if label is None or isinstance(label, str):
        raise InputError(
            "label", f"is {label!r}, and a {type(samples).__name__} has no columns",
            "Pass the labels themselves, one per sample: label=[...]",
        )  # fmt: skip
    if isinstance(samples, list | tuple) and any(isinstance(one, str) for one in samples):
        samples = make_object_array(list(samples))
    data = Dataset.from_arrays(samples, _list_labels(label, len(samples)))
    return RawDataset(data.kind, data.inputs, data.labels, data.ids)


def _read_torch(samples: Any, label: Any) -> RawDataset:
    """Read a map-style data set of (input, label) pairs, or a loader of batches."""
    if label is not None:
        raise InputError(
            "label", f"is given, but a {type(samples).__name__} has its own labels", "Leave it out"
        )
    inputs, labels = [], []
    if hasattr(samples, "dataset") and _is_iterable(samples):
        samples = _restore_order(samples)
        for batch in _limit_batches(samples, _measure_length(samples)):
            rows, batch_labels = _split_pair(batch)
            inputs += list(rows)
            labels += to_numpy(batch_labels, "label").tolist()
    else:
        for at in range(_measure_length(samples)):
            one, batch_labels = _split_pair(samples[at])
            inputs.append(one)
            labels.append(batch_labels.item() if hasattr(batch_labels, "item") else batch_labels)
    if not inputs:
        raise InputError("place", "has no samples", "Pass a data set with samples")
    names = getattr(getattr(samples, "dataset", samples), "classes", None)
    classes = list(map(str, names)) if isinstance(names, list | tuple) else None
    data = Dataset.from_arrays(_stack_inputs(inputs), labels, classes=classes)
    return RawDataset(data.kind, data.inputs, data.labels, data.ids)


def _measure_length(samples: Any) -> int:
    try:
        return len(samples)
    except TypeError as error:
        raise InputError(
            "place",
            f"is a {type(samples).__name__} without a length",
            "Pass a map-style data set, which has one: an endless one cannot be read",
        ) from error


def _restore_order(loader: Any) -> Any:
    """A loader that shuffles or drops its last batch, as one that does neither.

    Ids are row numbers of the data set, and no sample is missing.
    """
    own_class: Any = type(loader)
    bases = [one for one in own_class.__mro__ if one.__module__.startswith("torch.utils.data")]
    batch_sampler = getattr(loader, "batch_sampler", None)
    has_own_batches = getattr(loader, "batch_size", None) is None and batch_sampler is not None
    source = batch_sampler if has_own_batches else loader
    sampler: Any = getattr(source, "sampler", None)
    kind = type(sampler).__name__
    is_shuffle = kind == "RandomSampler" and not sampler.replacement
    is_shuffle = is_shuffle and len(sampler) == _measure_length(loader.dataset)
    if kind in _RANDOM_SAMPLERS and not is_shuffle:
        raise InputError(
            "place",
            f"is a {type(loader).__name__} that draws its samples at random ({kind})",
            "Pass its data set, whose rows have an order: loader.dataset",
        )
    is_complete = not (is_shuffle or getattr(source, "drop_last", False))
    if is_complete or not bases:
        return loader
    if has_own_batches or own_class.__iter__ is not bases[0].__iter__:
        raise InputError(
            "place",
            f"is a custom {type(loader).__name__} that shuffles or drops its last batch",
            "Pass its data set, whose rows have an order: loader.dataset",
        )
    return bases[0](
        loader.dataset,
        batch_size=loader.batch_size,
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
    )


def _limit_batches(batches: Iterable[Any], length: int) -> Iterable[Any]:
    """Yield at most `length` batches: a loader may go on beyond its own length."""
    for at, batch in enumerate(batches):
        if at >= length:
            return
        yield batch


def _split_pair(sample: Any) -> tuple[Any, Any]:
    if isinstance(sample, list | tuple) and len(sample) == 2:
        return sample[0], sample[1]
    raise InputError(
        "place", f"gives {type(sample).__name__}s", "Return pairs of an input and its label"
    )


def _stack_inputs(inputs: list[Any]) -> Any:
    """Stack texts, images of one size (as bytes), or feature vectors."""
    if all(isinstance(one, str) for one in inputs):
        return make_object_array(inputs)
    arrays = [_convert_input(one) for one in inputs]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        first = ", ".join(map(str, sorted(shapes)[:3]))
        raise InputError(
            "place", f"returns inputs of different shapes ({first})", "Resize them to one size"
        )
    check_limit("memory_bytes", sum(array.nbytes for array in arrays), "the data set")
    stack = np.stack(arrays)
    if stack.ndim < 3 or stack.dtype == np.uint8:
        return stack
    low, high = float(stack.min()), float(stack.max())
    if stack.dtype.kind != "f" or low < 0 or high > 1:
        raise InputError(
            "place",
            f"gives images of {stack.dtype} from {low:.3g} to {high:.3g}",
            "Leave the normalisation out: images are bytes, or floats from 0 to 1",
        )
    return (255 * stack).round().astype(np.uint8)


def _convert_input(one: Any) -> Any:
    """Convert one input to an array; torch images have their channels first."""
    array = to_numpy(one, "place")
    is_channels_first = hasattr(one, "detach") and array.ndim == 3 and array.shape[0] in (1, 3, 4)
    return array.transpose(1, 2, 0) if is_channels_first else array


def _are_paths(samples: Any) -> bool:
    if not samples:
        return False
    return all(
        isinstance(one, Path) or (isinstance(one, str) and is_image_name(one) and "\n" not in one)
        for one in samples
    )


def _is_arrow(samples: Any) -> bool:
    return hasattr(samples, "drop_columns") and hasattr(samples, "schema")


def _is_array(samples: Any) -> bool:
    return hasattr(samples, "shape") and hasattr(samples, "dtype")


def _is_iterable(samples: Any) -> bool:
    return hasattr(samples, "__iter__")
