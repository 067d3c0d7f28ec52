"""The other side of bench/format: answers one JSON request per line on standard input with one JSON line.

{"op": "make", "case", "rows", "truth", "path"}   makes the rows, writes them as Arrow IPC and as a Lance file
{"op": "scan", "path", "batch"}                   reads the whole file in batches
{"op": "take", "path", "rows": [...]}             reads the rows, given in ascending order
{"op": "write", "truth", "path", "batch"}         writes the rows of the Arrow IPC file in batches
Times are seconds: wall and processor time of all threads.
"""
import json
import os
import resource
import sys
import time

import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter


def usage():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime


def strings(values):
    return pa.array(values, pa.string())


def column(case, rows):
    """Rows of a case; the same every time."""
    rng = np.random.default_rng(len(case))
    if case == "int64":
        return pa.array(rng.integers(-2**63, 2**63 - 1, rows, dtype=np.int64))
    if case == "float64":
        return pa.array(rng.standard_normal(rows))
    if case == "int64 bit-packed":
        return pa.array(rng.integers(0, 1000, rows, dtype=np.int64))
    if case == "int32 sequential":
        return pa.array(np.arange(rows, dtype=np.int32))
    if case == "decimal128 nullable":
        return pa.array(rng.integers(0, 10**12, rows), pa.int64(), mask=rng.random(rows) < 0.1).cast(pa.decimal128(20, 0))
    if case == "strings nullable":
        words = np.array([f"user{v:x}" for v in range(50_000)])
        return pa.array(words[rng.integers(0, len(words), rows)], pa.string(), mask=rng.random(rows) < 0.2)
    if case == "strings long":
        words = np.array(["lorem ", "ipsum ", "dolor ", "sit ", "amet ", "consectetur "])
        return strings(["".join(words[rng.integers(0, 6, n)]) for n in rng.integers(40, 200, rows)])
    if case == "int64 half null":
        return pa.array(rng.integers(0, 100_000, rows, dtype=np.int64), mask=rng.random(rows) < 0.5)
    if case == "strings dictionary":
        names = np.array([f"{c} {i}" for i in range(10) for c in ("Amsterdam", "Berlin", "Copenhagen")])
        return strings(names[rng.integers(0, len(names), rows)])
    if case == "strings FSST":
        host, number = rng.integers(0, 5, rows), rng.integers(0, 10**7, rows)
        return strings([f"https://www.example{h}.org/articles/{n % 977}/{n}.html" for h, n in zip(host, number)])
    if case == "strings plain":
        raw = rng.integers(0, 2**63, rows, dtype=np.int64)
        return pa.array([f"{v:x}"[: 1 + v % 9] for v in raw.tolist()], pa.binary())
    if case == "bool":
        return pa.array(rng.random(rows) < 0.5)
    if case == "vectors float32[128]":
        return pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(rows * 128, dtype=np.float32)), 128)
    if case == "lists of int32":
        lengths = rng.integers(0, 9, rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(rng.integers(0, 10_000, offsets[-1], dtype=np.int32)))
    raise ValueError(case)


def make(r):
    values = column(r["case"], r["rows"])
    table = pa.table({"c": values}, schema=pa.schema([pa.field("c", values.type, nullable=values.null_count > 0)]))
    with pa.OSFile(r["truth"], "wb") as f, pa.ipc.new_file(f, table.schema) as w:
        for b in table.combine_chunks().to_batches():
            w.write_batch(b)
    write(table, r["path"], r["batch"])
    return {"bytes": table.nbytes, "size": os.path.getsize(r["path"])}


def write(table, path, batch):
    with LanceFileWriter(path, schema=table.schema, version="2.2") as w:
        for b in table.to_batches(max_chunksize=batch):
            w.write_batch(b)


def timed(work):
    cpu, start = usage(), time.perf_counter()
    out = work()
    return {"seconds": time.perf_counter() - start, "cpu": usage() - cpu, **out}


readers = {}  # path: reader; a warm reader has read the metadata
truths = {}


def reader(path):
    if path not in readers:
        readers.clear()
        readers[path] = LanceFileReader(path)
    return readers[path]


def scan(r):
    rows = 0
    for b in LanceFileReader(r["path"]).read_all(batch_size=r["batch"]).to_batches():
        rows += b.num_rows
    return {"rows": rows}


def take(r):
    return {"rows": r["reader"].take_rows(r["rows"], batch_size=len(r["rows"])).to_table().num_rows}


def rewrite(r):
    write(r["table"], r["path"], r["batch"])
    return {"rows": r["table"].num_rows, "size": os.path.getsize(r["path"])}


def answer(r):
    if r["op"] == "make":
        return make(r)
    if r["op"] == "scan":
        return timed(lambda: scan(r))
    if r["op"] == "take":
        r["reader"] = reader(r["path"])
        return timed(lambda: take(r))
    if r["op"] == "write":
        if r["truth"] not in truths:
            truths.clear()
            with pa.OSFile(r["truth"], "rb") as f:
                truths[r["truth"]] = pa.ipc.open_file(f).read_all()
        r["table"] = truths[r["truth"]]
        return timed(lambda: rewrite(r))
    raise ValueError(r["op"])


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
