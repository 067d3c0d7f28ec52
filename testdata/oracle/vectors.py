"""Is the other side of tables with vectors, for tests of test/e2e.

    vectors.py make PATH             a dataset (id int64 not null, e fixed-size list of 3 float32) with rows 1..4, the last without a vector
    vectors.py nearest PATH A B C    validates and prints the type of e and the ids of the two rows nearest to (A, B, C)
"""

import json
import sys

import lance
import pyarrow as pa

mode, path, *rest = sys.argv[1:]
if mode == "make":
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("e", pa.list_(pa.float32(), 3))])
    rows = pa.table({"id": [1, 2, 3, 4], "e": [[1.0, 2.5, -3.0], [0.0, 0.0, 0.0], [7.0, 8.0, 9.0], None]}, schema=schema)
    lance.write_dataset(rows, path)
else:
    ds = lance.dataset(path)
    ds.validate()
    found = ds.to_table(columns=["id"], nearest={"column": "e", "q": [float(x) for x in rest], "k": 2})
    print(json.dumps({"type": str(ds.schema.field("e").type), "ids": found.column("id").to_pylist()}))
