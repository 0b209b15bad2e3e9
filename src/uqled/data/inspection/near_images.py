"""Finds images that are the same picture saved again: recompressed, resized, reformatted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ImagePairs = NDArray[np.intp]

_GRID = 16  # blocks per side whose mean colours are compared
_THUMB = 8  # cells per side of the thumbnails used to find candidates
_COMPONENTS = 8  # principal components of the thumbnails
_CELL = 32.0  # size of a hash cell in grey levels; saving again moves a component by one or two
_TABLES = 6  # hash tables with different offsets: near images share a cell in one of them
_FEW_LEVELS = 24  # contrast between blocks below which nothing can be recognised
_MAX_DIFFERENCE = 0.07  # of a block's colour, as a share of the contrast: a pen mark differs more
_MEAN_DIFFERENCE = 0.012
_SMALL_DIFFERENCE = 0.15  # of a pixel, as a share of the contrast
_EVEN_SHARE = 0.4  # mean difference by root mean square: 0.7 after saving again, 0.2 of two strokes
_CROWD = 400  # images in a cell beyond which only the first ones are compared with the others


def find_near_images(images: NDArray[np.uint8], codes: NDArray[Any]) -> ImagePairs:
    """[M,2] pairs of images with different labels that show the same picture.

    Every block must agree, not only the image as a whole: two photographs of one scene differ in
    some block by far more than a picture that was saved again.
    """
    if len(images) < 2:
        return np.empty((0, 2), np.intp)
    blocks = np.stack([_average_blocks(image) for image in images])
    contrast = np.ptp(blocks.reshape(len(blocks), -1), axis=1).astype(np.float64)
    usable = np.flatnonzero(contrast >= _FEW_LEVELS)
    pairs = [np.empty((0, 2), np.intp)]
    for rows in _group_similar_thumbnails(blocks, usable, codes):
        for row in rows[:_CROWD].tolist():
            others = rows[(rows > row) & (codes[rows] != codes[row])]
            if not len(others):
                continue
            gap = np.abs(blocks[others].astype(np.int16) - blocks[row].astype(np.int16))
            gap = gap.reshape(len(others), -1)
            scale = np.minimum(contrast[others], contrast[row])
            is_near = gap.max(axis=1) <= _MAX_DIFFERENCE * scale
            is_near &= gap.mean(axis=1) <= _MEAN_DIFFERENCE * scale
            near_rows = others[is_near]
            near_rows = near_rows[
                [_differs_evenly(images[row], images[other]) for other in near_rows]
            ]
            pairs.append(np.stack([np.full(len(near_rows), row), near_rows], axis=1))
    return np.unique(np.concatenate(pairs), axis=0)


def _differs_evenly(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> bool:
    """Whether two images differ little, or evenly, as after saving a picture again.

    Two pen strokes in the same place differ in few pixels, but strongly.
    """
    grey = [image.mean(axis=2, dtype=np.float32) for image in (first, second)]
    gap = np.abs(grey[0] - grey[1])
    if gap.max() <= _SMALL_DIFFERENCE * min(np.ptp(one) for one in grey):
        return True
    return bool(gap.mean() >= _EVEN_SHARE * np.sqrt(np.mean(gap**2)))


def _average_blocks(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[<=16,<=16,C] mean colours."""
    high, wide = image.shape[:2]
    rows, columns = (np.linspace(0, n, _count_blocks(n) + 1).astype(int) for n in (high, wide))
    sums = np.add.reduceat(image, rows[:-1], axis=0, dtype=np.float32)
    sums = np.add.reduceat(sums, columns[:-1], axis=1)
    areas = np.outer(np.diff(rows), np.diff(columns))
    blocks: NDArray[np.uint8] = np.rint(sums / areas[..., None]).astype(np.uint8)
    return blocks


def _count_blocks(pixels: int) -> int:
    """Blocks along a side: at least four pixels each if the side has eight such blocks."""
    return min(pixels, max(_THUMB, min(_GRID, pixels // 4)))


def _group_similar_thumbnails(
    blocks: NDArray[np.uint8], usable: NDArray[np.intp], codes: NDArray[Any]
) -> list[NDArray[np.intp]]:
    """Group images whose thumbnails are similar, if their labels differ; rows ascending."""
    if len(usable) < 2:
        return []
    high, wide = blocks.shape[1:3]
    rows = np.unique(np.linspace(0, high, min(_THUMB, high) + 1).astype(int))[:-1]
    columns = np.unique(np.linspace(0, wide, min(_THUMB, wide) + 1).astype(int))[:-1]
    grey = blocks[usable].mean(axis=3, dtype=np.float32)
    thumbs = np.add.reduceat(np.add.reduceat(grey, rows, axis=1), columns, axis=2)
    thumbs = thumbs.reshape(len(usable), -1) * (len(rows) * len(columns) / (high * wide))
    thumbs -= thumbs.mean(axis=0)
    axes = np.linalg.eigh(thumbs.T @ thumbs)[1][:, ::-1][:, :_COMPONENTS]
    coordinates = thumbs @ axes
    offsets = np.random.default_rng(0).uniform(0, _CELL, (_TABLES, axes.shape[1]))
    groups = []
    for offset in offsets.astype(np.float32):
        cells = np.floor((coordinates + offset) / _CELL).astype(np.int32)
        _, number = np.unique(cells, axis=0, return_inverse=True)
        order = np.argsort(number.reshape(-1), kind="stable")
        starts = np.flatnonzero(np.diff(number.reshape(-1)[order]))
        groups += [
            usable[group]
            for group in np.split(order, starts + 1)
            if len(group) > 1 and len(np.unique(codes[usable[group]])) > 1
        ]
    return groups
