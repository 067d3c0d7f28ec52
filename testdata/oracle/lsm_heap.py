"""Writes and reads a table without a primary key (t: n int32 not null, v utf8) through pylance's MemWAL.

    lsm_heap.py create DIRECTORY            the table with rows (1, a) (1, a) (2, NULL), MemWAL unsharded
    lsm_heap.py put DIRECTORY close|die N   appends (N, x) twice as one WAL entry and (N, x) as another; then closes the writer,
                                            which flushes a generation, or dies, which leaves the WAL
    lsm_heap.py append DIRECTORY N          appends (N, x) to the base table, as a writer that knows nothing of MemWAL
    lsm_heap.py read DIRECTORY              prints {base: [[n, v], ...], lancedb: [[n, v], ...], refused: [message, ...]}: the base
                                            table (validated) by pylance, and by lancedb told to read no generations; refused is
                                            what pylance says to a delete through the shard and to a scan of base and generations,
                                            and lancedb to an ordinary query
"""

import json
import os
import sys

import lance
import pyarrow as pa
from lance.mem_wal import LsmScanner, ShardSnapshot

SHARD = "aa48498d-ac91-59e2-8452-69f46010ace2"  # of unsharded tables
SCHEMA = pa.schema([pa.field("n", pa.int32(), nullable=False), pa.field("v", pa.string())])


def rows(table):
    return sorted(([r["n"], r["v"]] for r in table.to_pylist()), key=str)


def table(pairs):
    return pa.table({"n": [n for n, _ in pairs], "v": [v for _, v in pairs]}, schema=SCHEMA)


def refusal(what):
    try:
        what()
        return "not refused"
    except Exception as e:  # noqa: BLE001
        return str(e)


mode, directory, *rest = sys.argv[1:]
path = os.path.join(directory, "t.lance")
if mode == "create":
    ds = lance.write_dataset(table([(1, "a"), (1, "a"), (2, None)]), path)
    ds.initialize_mem_wal(unsharded=True)
elif mode == "put":
    end, n = rest[0], int(rest[1])
    writer = lance.dataset(path).mem_wal_writer(SHARD)
    writer.put(table([(n, "x"), (n, "x")]))
    writer.put(table([(n, "x")]))
    if end == "die":
        os._exit(0)
    writer.close()
elif mode == "append":
    lance.write_dataset(table([(int(rest[0]), "x")]), path, mode="append")
else:
    import lancedb  # slow to load

    ds = lance.dataset(path)
    ds.validate()
    db = lancedb.connect(directory).open_table("t")
    print(
        json.dumps(
            {
                "base": rows(ds.to_table()),
                "lancedb": rows(db.search().use_lsm(False).to_arrow()),
                "refused": [
                    refusal(lambda: ds.mem_wal_writer(SHARD).delete(table([(1, "a")]).select(["n"]))),
                    refusal(lambda: LsmScanner.from_snapshots(ds, [ShardSnapshot(SHARD)]).to_table()),
                    refusal(lambda: db.search().to_arrow()),
                ],
            }
        )
    )
    sys.stdout.flush()
    os._exit(0)  # the shard writer above stays open
