"""Lets the reference implementation read what we wrote, or what it wrote itself, and compares with the truth.

    corpus_check.py LIST

LIST is a JSON file [{"name", "kind", "path", "truth"}, ...]; truth is an Arrow IPC file. By kind:
    file    path is a data file: pylance scans, reads ranges, takes
    table   path is a table directory NAME.lance with a column id: pylance and lancedb scan, take and filter
    size    pylance writes the truth to path, a data file of version `version`; the answer is its size in bytes
Prints one JSON object {NAME: "ok", what differs, or bytes}.
"""
import json
import os
import random
import sys

import pyarrow as pa
import pyarrow.compute as pc

import corpus_compare

# Types that the reference compares in filters by value.
COMPARABLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.string(), pa.bool_())


def read_ipc(path):
    with pa.memory_map(path) as f:
        return pa.ipc.open_file(f).read_all()


def check_file(want, path):
    """None, or what pylance reads differently from a data file."""
    from lance.file import LanceFileReader
    rng = random.Random(want.num_rows)
    r = LanceFileReader(path)
    for size in (1000, 8192):
        differs = corpus_compare.tables(want, r.read_all(batch_size=size).to_table())
        if differs:
            return f"scan in batches of {size}: {differs}"
    for _ in range(2):
        start = rng.randrange(want.num_rows)
        n = rng.randint(1, want.num_rows - start)
        differs = corpus_compare.tables(want.slice(start, n), r.read_range(start, n).to_table())
        if differs:
            return f"range {start}+{n}: {differs}"
    for count in (1, 20, 300):
        rows = sorted(rng.sample(range(want.num_rows), min(count, want.num_rows)))
        differs = corpus_compare.tables(want.take(rows), r.take_rows(rows).to_table())
        if differs:
            return f"take of {len(rows)} rows: {differs}"
    return None


def filters(want, rng):
    """Pairs of a filter and the rows that pass it: on the id, and on three columns."""
    ids = want.column("id").to_pylist()
    yield "id % 7 = 3", [i for i, v in enumerate(ids) if v % 7 == 3]
    lo, hi = len(ids) // 3, len(ids) // 2
    yield f"id >= {lo} AND id < {hi}", [i for i, v in enumerate(ids) if lo <= v < hi]
    if len(ids) > 5000:  # long answers would only repeat the scan
        return
    usable = [f for f in want.schema if f.name != "id" and (f.nullable or f.type in COMPARABLE)]
    for f in rng.sample(usable, min(3, len(usable))):
        column = want.column(f.name)
        if f.nullable and not pa.types.is_null(f.type):
            yield f"`{f.name}` IS NULL", pc.indices_nonzero(pc.is_null(column)).to_pylist()
        if f.type in COMPARABLE and column.null_count < len(column):
            pick = next(v for v in column.to_pylist() if v is not None)
            text = "'" + pick.replace("'", "''") + "'" if isinstance(pick, str) else str(pick).lower()
            yield f"`{f.name}` = {text}", pc.indices_nonzero(pc.fill_null(pc.equal(column, pa.scalar(pick, f.type)), False)).to_pylist()


def check_table(want, path):
    """None, or what pylance or lancedb reads differently from a table with a column id."""
    import lance
    import lancedb
    folder, name = os.path.split(path[:-len(".lance")])
    rng = random.Random(path)
    ds = lance.dataset(path)
    ds.validate()
    db = lancedb.connect(folder).open_table(name)
    if ds.count_rows() != want.num_rows or db.count_rows() != want.num_rows:
        return f"counts {ds.count_rows()} and {db.count_rows()}, want {want.num_rows}"
    differs = corpus_compare.tables(want, ds.to_table(batch_size=1000))
    if differs:
        return f"pylance scan: {differs}"
    differs = corpus_compare.tables(want, db.to_arrow())
    if differs:
        return f"lancedb scan: {differs}"
    for count in (1, 30, 500):
        rows = [rng.randrange(want.num_rows) for _ in range(count)]
        differs = corpus_compare.tables(want.take(rows), ds.take(rows))
        if differs:
            return f"pylance take of {count}: {differs}"
        rows = sorted(set(rows))
        differs = corpus_compare.tables(want.take(rows), db.take_offsets(rows).to_arrow().sort_by("id"))
        if differs:
            return f"lancedb take of {count}: {differs}"
    for condition, rows in filters(want, rng):
        expected = want.take(rows) if rows else want.slice(0, 0)
        differs = corpus_compare.tables(expected, ds.to_table(filter=condition))
        if differs:
            return f"pylance filter {condition}: {differs}"
        differs = corpus_compare.tables(expected, db.search().where(condition).to_arrow())
        if differs:
            return f"lancedb filter {condition}: {differs}"
        if ds.count_rows(filter=condition) != len(rows):
            return f"pylance count of {condition}"
    return None


def write_size(table, path, version):
    from lance.file import LanceFileWriter
    with LanceFileWriter(path, schema=table.schema, version=version) as w:
        for b in table.to_batches(max_chunksize=8192):
            w.write_batch(b)
    return os.path.getsize(path)


def main():
    with open(sys.argv[1]) as f:
        entries = json.load(f)
    out = {}
    last, want = None, None
    for e in entries:
        if e["truth"] != last:
            last, want = e["truth"], read_ipc(e["truth"])
        try:
            if e["kind"] == "file":
                out[e["name"]] = check_file(want, e["path"]) or "ok"
            elif e["kind"] == "table":
                out[e["name"]] = check_table(want, e["path"]) or "ok"
            else:
                out[e["name"]] = write_size(want, e["path"], e["version"])
        except BaseException as err:  # the reference panics on some inputs
            if isinstance(err, KeyboardInterrupt):
                raise
            out[e["name"]] = f"{type(err).__name__}: {str(err)[:400]}"
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
