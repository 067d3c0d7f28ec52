"""The part of the format corpus that is whole tables: pylance and lancedb make them, change them and drop rows."""
import fnmatch
import os
import shutil

import numpy as np
import pyarrow as pa

import corpus_data as data

LISTS = pa.list_(pa.int32())


def sample(seed, first, n, nested=True):
    """n rows with ids from first."""
    rng = np.random.default_rng([seed, first])

    def null(arr):
        return data.with_nulls(arr, data.masks(rng, "some", n))
    columns = {
        "id": pa.array(np.arange(first, first + n)), "i": null(data.fixed(rng, pa.int32(), "small", n)),
        "f": null(data.fixed(rng, pa.float64(), "rand", n)), "s": null(data.text(rng, pa.string(), "url", n)),
        "w": null(data.text(rng, pa.string(), "lowcard", n)), "b": null(data.text(rng, pa.binary(), "short", n)),
        "t": null(data.fixed(rng, pa.timestamp("us"), "sorted", n)), "d": null(data.fixed(rng, pa.decimal128(20, 4), "neg", n)),
        "v": null(data.flat(rng, pa.list_(pa.float32(), 8), "neg", n)),
    }
    if nested:
        columns["l"] = null(data.nested(rng, LISTS, "short", "some", n))
    return pa.table(columns)


def with_lance(out, version, golden):
    """Several fragments, deletions, an added column, updates and a compaction."""
    import lance
    n = 80 if golden else 20_000
    nested = version != "2.0" or not golden
    uri = os.path.join(out, "plain.lance")
    ds = lance.write_dataset(sample(1, 0, n, nested), uri, data_storage_version=version, max_rows_per_file=n // 3, max_rows_per_group=256)
    yield "plain", ds
    uri = os.path.join(out, "changed.lance")
    ds = lance.write_dataset(sample(2, 0, n, nested), uri, data_storage_version=version, max_rows_per_file=n // 4)
    ds = lance.write_dataset(sample(2, n, n // 10, nested), uri, mode="append")
    ds.delete("id % 10 = 3 OR (id > 20 AND id < 60)")
    ds.add_columns({"twice": "id * 2", "name": "concat('n', cast(id as string))"})
    ds.update({"i": "-1"}, where=f"id >= {n // 2} AND id < {n // 2 + 20}")
    ds.drop_columns(["b"])
    ds.alter_columns({"path": "w", "name": "word"})
    ds.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(ds.to_table(filter="id % 50 = 7").set_column(1, "i", pa.array([None] * ds.count_rows("id % 50 = 7"), pa.int32())))
    yield "changed", lance.dataset(uri)
    uri = os.path.join(out, "compacted.lance")
    ds = lance.write_dataset(sample(3, 0, n, nested), uri, data_storage_version=version, max_rows_per_file=n // 5)
    ds.delete("id % 3 = 0")
    ds.optimize.compact_files(target_rows_per_fragment=n)
    ds.delete("id % 7 = 1")
    yield "compacted", lance.dataset(uri)
    uri = os.path.join(out, "stable.lance")
    ds = lance.write_dataset(sample(4, 0, n, nested), uri, data_storage_version=version, max_rows_per_file=n // 2, enable_stable_row_ids=True)
    ds.delete("id < 17")
    yield "stable", lance.dataset(uri)


def with_lancedb(out, golden):
    import lancedb
    db = lancedb.connect(out)
    n = 60 if golden else 10_000
    t = db.create_table("db_plain", sample(5, 0, n))
    t.add(sample(5, n, 50))
    t.delete("id % 11 = 2")
    t.update(where="id < 5", values={"s": "changed"})
    yield "db_plain"
    t = db.create_table("db_indexed", sample(6, 0, n))
    t.create_scalar_index("id")
    t.add(sample(6, n, 10))
    t.optimize()
    yield "db_indexed"


def write(out, only, golden):
    """Makes the tables that `only` names; returns manifest entries and complaints."""
    import lance
    folder = os.path.join(out, "tables")
    entries = []

    def entry(name, path, ds, version):
        if not fnmatch.fnmatch(name, only):
            shutil.rmtree(os.path.join(out, path))
            return
        truth = f"truth/{name}.arrow"
        rows = ds.to_table().combine_chunks()
        options = pa.ipc.IpcWriteOptions(compression="zstd" if golden else None)
        with pa.OSFile(os.path.join(out, truth), "wb") as f, pa.ipc.new_file(f, rows.schema, options=options) as w:
            for b in rows.to_batches():
                w.write_batch(b)
        entries.append({"name": name, "kind": "dataset", "path": path, "truth": truth, "version": version, "rows": rows.num_rows})

    for version in ("2.0", "2.1", "2.2"):
        if golden and version == "2.0":
            continue
        sub = os.path.join(folder, version)
        os.makedirs(sub)
        for name, ds in with_lance(sub, version, golden):
            if golden and (name, version) not in (("changed", "2.2"), ("stable", "2.1")):
                shutil.rmtree(os.path.join(sub, name + ".lance"))
                continue
            entry(f"table_{name}.{version}", f"tables/{version}/{name}.lance", ds, version)
    for name in with_lancedb(folder, golden):
        ds = lance.dataset(os.path.join(folder, name + ".lance"))
        entry(f"table_{name}", f"tables/{name}.lance", ds, "2.2")
    # Older than anything we read: refused by name.
    if fnmatch.fnmatch("legacy", only):
        lance.write_dataset(sample(7, 0, 10, False).select(["id", "i", "s"]), os.path.join(folder, "legacy.lance"), data_storage_version="legacy")
        entries.append({"name": "legacy", "kind": "refused", "path": "tables/legacy.lance", "truth": "", "version": "0.1", "rows": 10})
    return entries, []
