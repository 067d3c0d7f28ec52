"""Writes a corpus of Lance files with pylance and lancedb, each beside the truth as an Arrow IPC file.

    corpus.py DIR [--large] [--only GLOB] [--verify] [--golden] [--seed N]

DIR/manifest.json lists what was written:
    {"pylance": "14.0.2", "files": [{"name", "kind", "path", "truth", "version", "rows"}, ...]}
kind "file" is one data file, "dataset" a table directory whose truth has the live rows in scan order, "refused" a file
or table that a reader must refuse. A truth file holds one record batch and is shared between the versions of one spec.
--large adds million-row files; --verify has pylance read everything back (prints what differs and fails); --golden
writes the small representative part that is checked in, with compressed truths.
"""
import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa

import corpus_data as data

VERSIONS = ("2.0", "2.1", "2.2")
NEWER = ("2.1", "2.2")


class Spec:
    """One truth table and how it is written."""

    def __init__(self, name, columns, versions=VERSIONS, batch=30_000, large=False, **options):
        self.name, self.columns, self.versions, self.batch = name, columns, versions, batch
        self.large, self.options = large, options

    def table(self, variant):
        """The truth, a function of the name and of the variant."""
        seed = int.from_bytes(self.name.encode(), "little") % (2**63)
        fields, arrays = [], []
        for i, (field, make) in enumerate(self.columns):
            fields.append(field)
            arrays.append(make(np.random.default_rng([seed, i] if variant == 0 else [seed, i, variant])))
        return pa.Table.from_batches([pa.record_batch(arrays, schema=pa.schema(fields))])


def column(name, t, make, nulls=None, n=0, metadata=None):
    """A column; nulls None is a field that is not nullable."""
    def build(rng):
        arr = make(rng)
        return arr if nulls in (None, "none") or pa.types.is_null(t) else data.with_nulls(arr, data.masks(rng, nulls, n))
    return pa.field(name, t, nullable=nulls is not None, metadata=metadata), build


def flat_columns(t, n, shapes, nullable, metadata=None):
    out = []
    for s in shapes:
        out.append(column(s, t, lambda rng, s=s: data.flat(rng, t, s, n), metadata=metadata))
    for s, k in nullable:
        out.append(column(f"{s}_{k}", t, lambda rng, s=s: data.flat(rng, t, s, n), k, n, metadata))
    return out


NULLABLE = [("seq", "some"), ("rand", "half"), ("const", "some"), ("lowcard", "most"), ("runs", "first"), ("small", "some"),
            ("small", "none"), ("rand", "all")]
FEW = [("rand", "half"), ("const", "some"), ("rand", "all")]
TEXT_NULLABLE = [("short", "some"), ("lowcard", "half"), ("const", "some"), ("url", "some"), ("short", "first"), ("empty", "most"),
                 ("lowcard", "none"), ("short", "all")]

FLAT = {
    "bool": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "uint8": pa.uint8(),
    "uint16": pa.uint16(), "uint32": pa.uint32(), "uint64": pa.uint64(), "float16": pa.float16(), "float32": pa.float32(),
    "float64": pa.float64(), "decimal128": pa.decimal128(20, 4), "decimal256": pa.decimal256(50, 10), "date32": pa.date32(),
    "date64": pa.date64(), "time32s": pa.time32("s"), "time32ms": pa.time32("ms"), "time64us": pa.time64("us"),
    "time64ns": pa.time64("ns"), "timestamps": pa.timestamp("s"), "timestampms": pa.timestamp("ms"),
    "timestampus": pa.timestamp("us"), "timestampns": pa.timestamp("ns"), "timestamptz": pa.timestamp("us", "Europe/Berlin"),
    "durations": pa.duration("s"), "durationms": pa.duration("ms"), "durationus": pa.duration("us"), "durationns": pa.duration("ns"),
    "fsb1": pa.binary(1), "fsb16": pa.binary(16), "fsb300": pa.binary(300),
}
TEXT = {"utf8": pa.string(), "large_utf8": pa.large_string(), "binary": pa.binary(), "large_binary": pa.large_binary()}
VECTORS = {
    "fsl_f32_4": pa.list_(pa.field("item", pa.float32()), 4), "fsl_f32_128": pa.list_(pa.field("item", pa.float32()), 128),
    "fsl_f16_8": pa.list_(pa.field("item", pa.float16()), 8), "fsl_f64_3": pa.list_(pa.field("item", pa.float64()), 3),
    "fsl_u8_16": pa.list_(pa.field("item", pa.uint8()), 16), "fsl_bool_5": pa.list_(pa.field("item", pa.bool_()), 5),
    "fsl_dec_2": pa.list_(pa.field("item", pa.decimal128(20, 4)), 2), "fsl_ts_3": pa.list_(pa.field("item", pa.timestamp("us")), 3),
}
# Items are null as well: the field's name asks for it.
ITEM_NULLS = {
    "fsl_i32n_3": pa.list_(pa.field("nullable", pa.int32()), 3), "fsl_f32n_100": pa.list_(pa.field("nullable", pa.float32()), 100),
}
VECTORS_OF_VECTORS = {
    "fsl_fsl_i16": pa.list_(pa.list_(pa.int16(), 3), 2),
    "fsl_fsl_f32n": pa.list_(pa.field("nullable", pa.list_(pa.field("nullable", pa.float32()), 4)), 3),
}
ITEM = pa.field("item", pa.int32())
NESTED = {
    "list_i32": pa.list_(pa.int32()), "list_utf8": pa.list_(pa.string()), "large_list_i64": pa.large_list(pa.int64()),
    "list_bool": pa.list_(pa.bool_()), "list_f64req": pa.list_(pa.field("item", pa.float64(), nullable=False)),
    "list_list_i16": pa.list_(pa.list_(pa.int16())), "list_list_list_utf8": pa.list_(pa.list_(pa.list_(pa.string()))),
    "list_fsl": pa.list_(pa.list_(pa.float32(), 4)), "list_binary": pa.list_(pa.large_binary()),
}
# With null structs: not in 2.0.
STRUCTS = {
    "struct": pa.struct([("a", pa.int32()), ("b", pa.string())]),
    "struct_struct": pa.struct([("a", pa.int64()), ("s", pa.struct([pa.field("x", pa.float32(), nullable=False), ("y", pa.bool_())])), ("c", pa.string())]),
    "struct_list": pa.struct([("l", pa.list_(pa.int32())), ("t", pa.timestamp("us"))]),
    "struct_fsl": pa.struct([("v", pa.list_(pa.float32(), 3)), ("d", pa.decimal128(20, 2))]),
    "list_struct": pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())])),
    "list_struct_list": pa.list_(pa.struct([("k", pa.int16()), ("l", pa.list_(pa.string())), ("f", pa.float64())])),
    "large_list_struct": pa.large_list(pa.struct([("a", pa.int64()), ("n", pa.struct([("z", pa.int8())]))])),
}
MAPS = {
    "map": pa.map_(pa.string(), pa.int32()), "map_struct": pa.map_(pa.string(), pa.struct([("a", pa.int32()), ("b", pa.string())])),
    "list_map": pa.list_(pa.map_(pa.string(), pa.float64())),
}
FSL_STRUCT = {"fsl_struct": pa.list_(pa.struct([("a", pa.int32()), ("b", pa.float32())]), 3)}
DICTIONARIES = {
    "dict_i8_utf8": pa.dictionary(pa.int8(), pa.string()), "dict_i16_utf8": pa.dictionary(pa.int16(), pa.string()),
    "dict_i32_utf8": pa.dictionary(pa.int32(), pa.string()), "dict_u8_i64": pa.dictionary(pa.uint8(), pa.int64()),
}
CORE = ("bool", "int16", "int32", "int64", "uint8", "float32", "float64", "decimal128", "timestampus")
BIG = 100_000


def flat_specs():
    small = ["rand", "const", "seq"]
    for name, t in FLAT.items():
        for n in (1, 5):
            yield Spec(f"{name}-{n}", flat_columns(t, n, small, FEW))
        yield Spec(f"{name}-1000", flat_columns(t, 1000, data.SHAPES, NULLABLE))
        if name in CORE:
            yield Spec(f"{name}-{BIG}", flat_columns(t, BIG, data.SHAPES, NULLABLE))
        elif name != "fsb300":
            yield Spec(f"{name}-{BIG + 1}", flat_columns(t, BIG + 1, ["rand", "sorted"], [("lowcard", "half"), ("runs", "some")]))
    yield Spec("null-1000", [column("n", pa.null(), lambda rng: pa.nulls(1000), "all", 1000)])
    yield Spec("null-1", [column("n", pa.null(), lambda rng: pa.nulls(1), "all", 1)])
    for name, t in DICTIONARIES.items():
        for n in (1, 5, 1000, BIG):
            yield Spec(f"{name}-{n}", flat_columns(t, n, ["small", "const"], [("small", "some"), ("rand", "all")]))


def text_specs():
    for name, t in TEXT.items():
        for n in (1, 5):
            yield Spec(f"{name}-{n}", flat_columns(t, n, ["short", "const", "mid"], [("short", "half"), ("const", "some"), ("short", "all")]))
        yield Spec(f"{name}-1000", flat_columns(t, 1000, data.TEXTS, TEXT_NULLABLE))
        if name.startswith("large"):
            yield Spec(f"{name}-{BIG + 1}", flat_columns(t, BIG + 1, ["seq", "short"], [("lowcard", "half"), ("url", "some")]))
        else:
            yield Spec(f"{name}-{BIG}", flat_columns(t, BIG, ["const", "seq", "short", "lowcard", "sorted", "url", "empty", "runs"], TEXT_NULLABLE))
        m = 4000 if name.startswith("large") else 20_000
        yield Spec(f"{name}_mid-{m}", flat_columns(t, m, ["mid"], [("mid", "some"), ("mid", "first")]))
        yield Spec(f"{name}_long-3000", flat_columns(t, 3000, ["long"], [("long", "half")]))
        yield Spec(f"{name}_huge-60", flat_columns(t, 60, ["huge"], [("huge", "some")]))
        yield Spec(f"{name}_prose-40", flat_columns(t, 40, ["prose"], [("prose", "some")]))


def vector_specs():
    def columns(t, n):
        return flat_columns(t, n, ["small", "rand", "const"], [("small", "some"), ("rand", "first"), ("const", "half"), ("rand", "all")])
    for group in (VECTORS, ITEM_NULLS, VECTORS_OF_VECTORS):
        versions = NEWER if group is VECTORS_OF_VECTORS else VERSIONS
        for name, t in group.items():
            for n in (1, 5, 1000):
                yield Spec(f"{name}-{n}", columns(t, n), versions)
            if name in ("fsl_f32_4", "fsl_i32n_3", "fsl_fsl_i16", "fsl_bool_5"):
                yield Spec(f"{name}-{BIG}", columns(t, BIG), versions)
    wide = pa.list_(pa.float32(), 1536)
    yield Spec("fsl_f32_1536-700", flat_columns(wide, 700, ["rand"], [("small", "some")]), batch=100)


LIST_SHAPES = [("short", "some"), ("full", "none"), ("ones", "none"), ("empty", "some"), ("none", "some"), ("long", "some"), ("short", "all"), ("full", "half")]


def nested_columns(t, n, shapes):
    """Columns twice: a nullable field with nulls, and one that is not nullable with nulls inside only."""
    out = []
    for shape, nulls in shapes:
        out.append(column(f"{shape}_{nulls}", t, lambda rng, s=shape, k=nulls: data.nested(rng, t, s, k, n), nulls, n))
    out.append(column("req", t, lambda rng: data.nested(rng, t, "short", "some", n)))
    return out


def nested_specs():
    def specs(types, versions, big=()):
        for name, t in types.items():
            for n in (1, 5, 1000):
                shapes = LIST_SHAPES if n == 1000 else [("short", "some"), ("full", "none"), ("none", "some"), ("short", "all"), ("full", "half")]
                yield Spec(f"{name}-{n}", nested_columns(t, n, shapes), versions)
            if name in big:
                yield Spec(f"{name}-{BIG}", nested_columns(t, BIG, [("full", "none"), ("short", "some")])[:2], versions)
    yield from specs(NESTED, VERSIONS, ("list_i32", "list_utf8", "list_list_i16"))
    yield from specs(STRUCTS, NEWER, ("struct", "list_struct", "struct_list"))
    yield from specs(MAPS, ("2.2",), ("map",))
    yield from specs(FSL_STRUCT, ("2.2",))
    # 2.0 stores structs that are never null.
    for name, t in STRUCTS.items():
        t = valid_structs(t)
        for n in (1, 5, 1000):
            shapes = [("short", "some"), ("full", "none"), ("empty", "half")]
            cols = [column(f"{s}_{k}", t, lambda rng, s=s, k=k, t=t, n=n: data.nested(rng, t, s, k, n)) for s, k in shapes]
            yield Spec(f"{name}_valid-{n}", cols)


def valid_structs(t):
    """t with every struct in it not nullable."""
    def field(f):
        return pa.field(f.name, valid_structs(f.type), nullable=f.nullable and not pa.types.is_struct(f.type))
    if pa.types.is_struct(t):
        return pa.struct([field(f) for f in t])
    if pa.types.is_large_list(t):
        return pa.large_list(field(t.value_field))
    if pa.types.is_list(t):
        return pa.list_(field(t.value_field))
    return t


# Encodings that are written only on request.
HINTS = {
    "zstd": {"lance-encoding:compression": "zstd"}, "lz4": {"lance-encoding:compression": "lz4"},
    "none": {"lance-encoding:compression": "none"}, "bss": {"lance-encoding:compression": "lz4", "lance-encoding:bss": "on"},
    "bssoff": {"lance-encoding:compression": "zstd", "lance-encoding:bss": "off"},
    "fsst": {"lance-encoding:compression": "fsst"}, "fullzip": {"lance-encoding:structural-encoding": "fullzip"},
    "miniblock": {"lance-encoding:structural-encoding": "miniblock"},
}
# Others that a few columns have.
DICTIONARY_HINTS = {
    "dictzstd": {"lance-encoding:dict-values-compression": "zstd"}, "dictnone": {"lance-encoding:dict-values-compression": "none"},
    "dictany": {"lance-encoding:dict-divisor": "1", "lance-encoding:dict-size-ratio": "1.0"}, "rle": {"lance-encoding:rle-threshold": "1.0"},
}


def hint_specs():
    types = {"int32": pa.int32(), "int64": pa.int64(), "float32": pa.float32(), "float64": pa.float64(), "decimal128": pa.decimal128(20, 4),
             "bool": pa.bool_(), "fsl_f32_4": VECTORS["fsl_f32_4"]}
    for hint, metadata in HINTS.items():
        for name, t in types.items():
            if hint == "fsst":
                continue
            cols = flat_columns(t, 5000, ["rand", "small", "runs", "lowcard", "neg"], [("small", "half"), ("runs", "some"), ("lowcard", "half")], metadata)
            yield Spec(f"{name}_{hint}-5000", cols, VERSIONS if hint in ("zstd", "lz4", "none") else NEWER)
        for name, t in TEXT.items():
            cols = flat_columns(t, 4000, ["short", "lowcard", "url", "mid"], [("url", "half"), ("mid", "some")], metadata)
            yield Spec(f"{name}_{hint}-4000", cols, VERSIONS if hint == "zstd" or hint == "fsst" and not name.startswith("large") else NEWER)
        for name in ("list_i32", "list_utf8", "list_struct"):
            t = {**NESTED, **STRUCTS}[name]
            cols = [(f.with_metadata(metadata), make) for f, make in nested_columns(t, 2000, [("short", "some"), ("empty", "half")])]
            yield Spec(f"{name}_{hint}-2000", cols, NEWER)
    for hint, metadata in DICTIONARY_HINTS.items():
        cols = renamed("i64", flat_columns(pa.int64(), 3000, ["lowcard", "small", "runs"], [("lowcard", "some")], metadata))
        cols += renamed("dec", flat_columns(pa.decimal128(20, 4), 3000, ["lowcard"], [("small", "half")], metadata))
        cols += renamed("utf8", flat_columns(pa.string(), 3000, ["lowcard", "runs"], [("lowcard", "some")], metadata))
        yield Spec(f"hint_{hint}-3000", cols, NEWER)


def other_specs():
    for n in (1, 5, 1000, 20_000):
        t = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("y", pa.float64(), nullable=False), pa.field("z", pa.uint8(), nullable=False)])
        cols = [column(s, t, lambda rng, s=s, n=n: data.nested(rng, t, s, "none", n), metadata={"lance-encoding:packed": "true"}) for s in ("full", "ones")]
        yield Spec(f"packed-{n}", cols)
        mixed = pa.struct([pa.field("x", pa.int32(), nullable=False), pa.field("s", pa.string(), nullable=False), pa.field("b", pa.large_binary(), nullable=False)])
        cols = [column("mixed", mixed, lambda rng, n=n: data.nested(rng, mixed, "short", "none", n), metadata={"lance-encoding:packed": "true"})]
        yield Spec(f"packed_var-{n}", cols, ("2.2",))
        for name, s, versions in (("packed_null", t, NEWER), ("packed_var_null", mixed, ("2.2",))):
            cols = [column(f"short_{k}", s, lambda rng, s=s, n=n: data.nested(rng, s, "short", "none", n), k, n, {"lance-encoding:packed": "true"})
                    for k in ("some", "first", "all")]
            yield Spec(f"{name}-{n}", cols, versions)
    for n in (1, 5, 1000):
        blob = {"lance-encoding:blob": "true"}
        cols = flat_columns(pa.large_binary(), n, ["short", "mid"], [("mid", "some"), ("short", "half"), ("empty", "some")], blob)
        yield Spec(f"blob-{n}", cols, ("2.0", "2.1"))
    # Many pages: the writer flushes often, and columns are cut at different rows.
    for n, cache, batch in ((30_000, 400_000, 700), (60_000, 2_000_000, 5_000)):
        cols = [column("i", pa.int64(), lambda rng, n=n: data.fixed(rng, pa.int64(), "seq", n)),
                column("n", pa.int32(), lambda rng, n=n: data.fixed(rng, pa.int32(), "rand", n), "first", n),
                column("s", pa.string(), lambda rng, n=n: data.text(rng, pa.string(), "url", n), "some", n),
                column("w", pa.string(), lambda rng, n=n: data.text(rng, pa.string(), "lowcard", n), "half", n),
                column("v", VECTORS["fsl_f32_4"], lambda rng, n=n: data.flat(rng, VECTORS["fsl_f32_4"], "small", n), "some", n),
                column("l", pa.list_(pa.int32()), lambda rng, n=n: data.nested(rng, pa.list_(pa.int32()), "short", "some", n), "some", n),
                column("b", pa.bool_(), lambda rng, n=n: data.fixed(rng, pa.bool_(), "runs", n), "some", n)]
        yield Spec(f"pages-{n}", cols, batch=batch, data_cache_bytes=cache)
    million = 1_300_000
    for name in ("int64", "int32", "float64", "bool"):
        yield Spec(f"{name}-{million}", flat_columns(FLAT[name], million, ["rand", "sorted"], [("small", "some")]), large=True)
    yield Spec(f"utf8-{million}", flat_columns(pa.string(), million, ["url"], [("lowcard", "some")]), large=True)


def golden_specs():
    """Small files that together have every encoding; 1,100 rows make more than one chunk."""
    n = 1100
    kinds = {"int64": ["rand", "small", "sorted"], "int32": ["lowcard", "neg"], "int16": ["runs"], "uint8": ["small"], "float64": ["small"],
             "float32": ["runs"], "bool": ["rand"]}
    cols = []
    for name, shapes in kinds.items():
        for i, s in enumerate(shapes):
            cols += renamed(name, flat_columns(FLAT[name], n, [s], [(s, "some")] if i == 0 else []))
    cols += renamed("more", flat_columns(pa.int64(), n, ["const"], [("const", "half"), ("rand", "all"), ("rand", "first")]))
    yield Spec(f"flat-{n}", cols)
    cols = []
    for name, t in {**FLAT, **VECTORS, **ITEM_NULLS}.items():
        if name not in ("fsb300", "fsl_f32_128"):
            cols += renamed(name, flat_columns(t, 7, ["rand"], [("small", "half")]))
    yield Spec("types-7", cols)
    yield Spec("types-1", [column(name, t, lambda rng, t=t: data.flat(rng, t, "seq", 1), "none", 1) for name, t in FLAT.items()])
    cols = []
    for name, t in TEXT.items():
        cols += renamed(name, flat_columns(t, 150, ["lowcard", "short"], [("short", "some"), ("lowcard", "half"), ("const", "some")]))
    yield Spec("text-150", cols)
    yield Spec("fsst-900", flat_columns(pa.string(), 900, ["url"], [("url", "some")]))
    yield Spec("long-24", flat_columns(pa.string(), 24, ["long"], [("long", "half")]) + flat_columns(pa.large_binary(), 24, ["mid"], [("long", "some")]))
    big = column("big", pa.string(), lambda rng: pa.array(["lance " * (6000 + i) for i in range(3)]))
    yield Spec("big-3", [big], NEWER)
    yield Spec("vectors-12", renamed("f", flat_columns(VECTORS["fsl_f32_128"], 12, ["small"], [("rand", "some")]))
               + renamed("n", flat_columns(ITEM_NULLS["fsl_f32n_100"], 12, [], [("small", "some")]))
               + renamed("b", flat_columns(FLAT["fsb300"], 12, [], [("rand", "some"), ("rand", "all")])))
    for name, t in {**NESTED, **STRUCTS}.items():
        for m in (6, 160):
            if m == 6 or name in ("list_i32", "list_list_i16", "list_struct", "struct_struct"):
                shapes = [("short", "some"), ("empty", "half"), ("short", "all")] if m == 6 else [("short", "some"), ("none", "some")]
                yield Spec(f"{name}-{m}", nested_columns(t, m, shapes), NEWER)
    yield Spec("rows-120", nested_columns(pa.list_(pa.int32()), 120, [("long", "some")]), NEWER)
    old = {**NESTED, **{k: valid_structs(t) for k, t in STRUCTS.items()}}
    yield Spec("nested-9", [column(k, t, lambda rng, t=t: data.nested(rng, t, "short", "some", 9)) for k, t in old.items()], ("2.0",))
    # Pages of a fixed-size list of structs count items, hence a file of their own.
    yield Spec("fsl_struct-9", [column("s", FSL_STRUCT["fsl_struct"], lambda rng: data.nested(rng, FSL_STRUCT["fsl_struct"], "short", "some", 9), "some", 9)], ("2.2",))
    new = {**MAPS, **VECTORS_OF_VECTORS}
    yield Spec("maps-9", [column(k, t, lambda rng, t=t: data.nested(rng, t, "short", "some", 9), "some", 9) for k, t in new.items()], ("2.2",))
    cols = [column(h, pa.float32(), lambda rng: data.flat(rng, pa.float32(), "small", 300), "some", 300, m) for h, m in HINTS.items() if h != "fsst"]
    yield Spec("hints-300", cols, NEWER)
    cols = [column(h, pa.string(), lambda rng: data.flat(rng, pa.string(), "url", 90), "some", 90, m) for h, m in HINTS.items()]
    yield Spec("hints_text-90", cols, NEWER)
    cols = [column(h, pa.string(), lambda rng: data.flat(rng, pa.string(), "url", 90), "some", 90, HINTS[h]) for h in ("zstd", "fsst", "none")]
    yield Spec("hints_old-90", cols, ("2.0",))
    cols = [column(f"{k}_{h}", t, lambda rng, t=t: data.flat(rng, t, "lowcard", 1100), "some", 1100, HINTS[h])
            for k, t in {"i32": pa.int32(), "f64": pa.float64()}.items() for h in ("lz4", "zstd", "bss", "bssoff")]
    yield Spec("hints_fixed-1100", cols, NEWER)
    cols = [column(h, pa.string(), lambda rng: data.flat(rng, pa.string(), "lowcard", 150), "some", 150, m) for h, m in DICTIONARY_HINTS.items()]
    yield Spec("hints_dict-150", cols, ("2.2",))
    words = column("words", pa.string(), lambda rng: pa.array([" ".join(rng.choice(data.WORDS, 60)) for _ in range(150)]))
    yield Spec("words-150", [words], NEWER)
    yield Spec("list_long-1400", nested_columns(pa.list_(pa.int8()), 1400, [("short", "some")])[:1], NEWER)
    yield Spec("dict-150", [c for k, t in DICTIONARIES.items() for c in renamed(k, flat_columns(t, 150, ["small"], [("small", "some")]))])
    yield Spec("null-3", [column("n", pa.null(), lambda rng: pa.nulls(3), "all", 3)])
    for s in other_specs():
        if s.name in ("packed-5", "packed_var-5", "blob-5"):
            yield s


def renamed(prefix, columns):
    return [(f.with_name(f"{prefix}_{f.name}"), make) for f, make in columns]


def specs():
    for make in (flat_specs, text_specs, vector_specs, nested_specs, hint_specs, other_specs):
        yield from make()


# What the reference itself does not write or does not read back; (spec glob, versions): reason.
REFERENCE_REFUSES = []


def refused(spec, version):
    return any(fnmatch.fnmatch(spec.name, g) and version in v for g, v, _ in REFERENCE_REFUSES)


def write_truth(path, table, golden):
    options = pa.ipc.IpcWriteOptions(compression="zstd" if golden else None)
    with pa.OSFile(path, "wb") as f, pa.ipc.new_file(f, table.schema, options=options) as w:
        for b in table.to_batches():
            w.write_batch(b)


def write_specs(out, chosen, args):
    from lance.file import LanceFileWriter
    import corpus_check

    golden, verify = args.golden, args.verify
    files, bad = [], []
    for spec in chosen:
        table = spec.table(args.seed)
        truth = f"truth/{spec.name}.arrow"
        write_truth(os.path.join(out, truth), table, golden)
        for version in spec.versions:
            if refused(spec, version):
                continue
            path = f"files/{spec.name}.{version}.lance"
            full = os.path.join(out, path)
            try:
                with LanceFileWriter(full, schema=table.schema, version=version, **spec.options) as w:
                    for b in table.to_batches(max_chunksize=spec.batch):
                        w.write_batch(b)
                if verify and not any("lance-encoding:blob" in (f.metadata or {}) or b"lance-encoding:blob" in (f.metadata or {}) for f in table.schema):
                    differs = corpus_check.check_file(table, full)
                    if differs:
                        bad.append(f"{spec.name} {version}: {differs}")
            except BaseException as e:  # the reference panics on some inputs
                if isinstance(e, (KeyboardInterrupt, SystemExit)):
                    raise
                bad.append(f"{spec.name} {version}: {type(e).__name__}: {str(e)[:300]}")
                continue
            files.append({"name": f"{spec.name}.{version}", "kind": "file", "path": path, "truth": truth, "version": version, "rows": table.num_rows})
    return files, bad


def shard(args, index, count):
    """One of several processes: every count-th spec."""
    chosen = [s for s in (golden_specs() if args.golden else specs()) if fnmatch.fnmatch(s.name, args.only) and (args.large or not s.large)]
    files, bad = write_specs(args.dir, chosen[index::count], args)
    if index == count - 1:
        import corpus_tables
        more, worse = corpus_tables.write(args.dir, args.only, args.golden)
        files, bad = files + more, bad + worse
    with open(os.path.join(args.dir, f"part{index}.json"), "w") as f:
        json.dump({"files": files, "bad": bad}, f)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("dir")
    p.add_argument("--large", action="store_true")
    p.add_argument("--only", default="*")
    p.add_argument("--verify", action="store_true")
    p.add_argument("--golden", action="store_true")
    p.add_argument("--seed", type=int, default=0, help="another number is another corpus of the same shapes")
    p.add_argument("--shard", help="internal: I/N")
    args = p.parse_args()
    if args.shard:
        index, count = args.shard.split("/")
        shard(args, int(index), int(count))
        return
    for sub in ("files", "truth", "tables"):
        shutil.rmtree(os.path.join(args.dir, sub), ignore_errors=True)
        os.makedirs(os.path.join(args.dir, sub))
    count = min(2, os.cpu_count() or 1)
    # Why: processes, not threads: generating data is numpy and Python code under one lock.
    children = [subprocess.Popen([sys.executable, "-B", *sys.argv, "--shard", f"{i}/{count}"]) for i in range(count)]
    if any([c.wait() for c in children]):
        sys.exit("a part of the corpus could not be written")
    manifest = {"pylance": reference_version(), "files": []}
    bad = []
    for i in range(count):
        part = os.path.join(args.dir, f"part{i}.json")
        with open(part) as f:
            text = json.load(f)
        os.remove(part)
        manifest["files"] += text["files"]
        bad += text["bad"]
    manifest["files"].sort(key=lambda f: f["name"])
    with open(os.path.join(args.dir, "manifest.json"), "w") as f:
        json.dump(manifest, f, indent=0)
    if bad:
        sys.exit("\n".join(bad))


def reference_version():
    from importlib.metadata import version
    return version("pylance")


main()
