"""Reads and writes single Lance data files with pylance.

write DIR VERSION [HINT=VALUE ...]  for each NAME.arrow in DIR write NAME.lance; hints become field metadata
check DIR                           for each NAME.arrow compare NAME.lance with it: whole, ranges and single rows
batch FILE                          the jobs in FILE, a JSON list of such argument lists; prints a list of answers
Prints one JSON object {NAME: "ok" or what went wrong}.
"""
import json
import os
import random
import sys

import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter


def read_ipc(path):
    with pa.OSFile(path, "rb") as f:
        return pa.ipc.open_file(f).read_all()


def plain(t):
    """The integer type with the same bits, so that NaN equals itself."""
    if pa.types.is_float16(t):
        return pa.uint16()
    if pa.types.is_float32(t):
        return pa.uint32()
    if pa.types.is_float64(t):
        return pa.uint64()
    if pa.types.is_fixed_size_list(t):
        return pa.list_(plain(t.value_type), t.list_size)
    return t


def bits(arr):
    """arr with floats as integers."""
    t = arr.type
    if pa.types.is_fixed_size_list(t):
        values = bits(arr.values)[arr.offset * t.list_size:(arr.offset + len(arr)) * t.list_size]
        valid = arr.is_null() if arr.null_count else None
        return pa.FixedSizeListArray.from_arrays(values, t.list_size, mask=valid)
    if plain(t) != t:
        return arr.view(plain(t))
    return arr


def same(want, got):
    if want.num_rows != got.num_rows:
        return f"{got.num_rows} rows, want {want.num_rows}"
    for name in want.column_names:
        w, g = want.column(name).combine_chunks(), got.column(name).combine_chunks()
        if isinstance(w, pa.ChunkedArray):
            w = pa.concat_arrays(w.chunks) if w.num_chunks else pa.array([], w.type)
        if isinstance(g, pa.ChunkedArray):
            g = pa.concat_arrays(g.chunks) if g.num_chunks else pa.array([], g.type)
        if w.type != g.type:
            return f"{name}: type {g.type}, want {w.type}"
        if len(w) == 0:
            continue
        if w.null_count != g.null_count:
            return f"{name}: {g.null_count} nulls, want {w.null_count}"
        if not bits(w).equals(bits(g)):
            wl, gl = bits(w).to_pylist(), bits(g).to_pylist()
            at = next((i for i in range(len(wl)) if wl[i] != gl[i]), None)
            if at is not None:
                return f"{name}: row {at}: {str(gl[at])[:80]!r}, want {str(wl[at])[:80]!r}"
    return None


def check(want, path):
    rng = random.Random(want.num_rows)
    r = LanceFileReader(path)
    bad = same(want, r.read_all(batch_size=1000).to_table())
    if bad:
        return bad
    for _ in range(3):
        start = rng.randrange(want.num_rows)
        n = rng.randint(1, want.num_rows - start)
        bad = same(want.slice(start, n), r.read_range(start, n).to_table())
        if bad:
            return f"range {start}+{n}: {bad}"
    rows = sorted(rng.sample(range(want.num_rows), min(20, want.num_rows)))
    bad = same(want.take(rows), r.take_rows(rows).to_table())
    return f"take {rows}: {bad}" if bad else "ok"


def write(table, path, version, hints):
    if hints:
        table = table.cast(pa.schema([f.with_metadata(hints) for f in table.schema]))
    with LanceFileWriter(path, schema=table.schema, version=version) as w:
        for b in table.to_batches(max_chunksize=30_000):
            w.write_batch(b)
    return "ok"


def run(args):
    mode, folder = args[:2]
    out = {}
    for f in sorted(os.listdir(folder)):
        if not f.endswith(".arrow"):
            continue
        name = f[:-len(".arrow")]
        path = os.path.join(folder, name + ".lance")
        try:
            table = read_ipc(os.path.join(folder, f))
            if mode == "check":
                out[name] = check(table, path)
            else:
                hints = dict(h.split("=", 1) for h in args[3:])
                out[name] = write(table, path, args[2], hints)
        except BaseException as e:  # the reference panics on some inputs
            out[name] = f"{type(e).__name__}: {str(e)[:300]}"
    return out


def main():
    if sys.argv[1] == "batch":
        with open(sys.argv[2]) as f:
            out = [run(job) for job in json.load(f)]
    else:
        out = run(sys.argv[1:])
    json.dump(out, sys.stdout)


main()
