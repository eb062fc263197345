"""Hashes of texts that no version of any library changes: hold-out sets, identities of batches and hashed columns."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import polars as pl

from eventvec.sequences import Array

FNV_OFFSET, FNV_PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)


def buckets_of(text: pl.Series, buckets: int) -> Array:
    """Return `(n,)` int64 the bucket of each text, from 0 to `buckets - 1`: FNV-1a, then splitmix64's finaliser.

    A saved model depends on this function, so it never changes.
    """
    return (mix(fnv(text)) % np.uint64(buckets)).astype(np.int64)


def bucket_of(text: str, buckets: int) -> int:
    """Return the bucket of a text, as `buckets_of` does of many.

    Example:
        >>> [bucket_of("tea", 5)] == buckets_of(pl.Series(["tea"]), 5).tolist()
        True
    """
    return int(mix(np.array([fnv_of(text)], np.uint64))[0]) % buckets


def mix(values: Array) -> Array:
    """Return `(n,)` uint64 numbers in which each bit depends on all bits of the given ones (splitmix64's finaliser)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
    mixed: Array = values ^ (values >> np.uint64(31))
    return mixed


@lru_cache(1 << 16)
def fnv_of(text: str) -> int:
    """Return the hash of one text, as `fnv` does of many.

    Example:
        >>> [fnv_of("tea")] == fnv(pl.Series(["tea"])).tolist()
        True
    """
    digest, prime = int(FNV_OFFSET), int(FNV_PRIME)
    for byte in text.encode():
        digest = ((digest ^ byte) * prime) & 0xFFFFFFFFFFFFFFFF
    return digest


def fnv(text: pl.Series) -> Array:
    """Return `(n,)` uint64, the FNV-1a hash of each text's UTF-8 bytes (Fowler, Noll and Vo)."""
    lengths = text.str.len_bytes().to_numpy().astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    data = np.frombuffer("".join(text.to_list()).encode(), np.uint8)
    order = np.argsort(-lengths, kind="stable")  # the texts that have a byte at some place come first
    starts, counts = starts[order], np.bincount(lengths, minlength=1)[::-1].cumsum()[::-1]
    digest = np.full(len(text), FNV_OFFSET)
    for place in range(int(lengths.max(initial=0))):  # this byte of every text that has one
        n = int(counts[place + 1])
        digest[:n] = (digest[:n] ^ data[starts[:n] + place]) * FNV_PRIME
    hashes = np.empty_like(digest)
    hashes[order] = digest
    return hashes
