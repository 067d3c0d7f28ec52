"""Makes indexes on a table of ours through pylance, and asks it questions, for tests of lsm/.

    lsm_index.py make PATH NAME COLUMN KIND
    lsm_index.py ask PATH FILTER...

make  builds an index of KIND (BTREE, BITMAP, ZONEMAP, BLOOMFILTER) over all fragments.
ask   validates the table and prints one JSON object: "count" rows; "indexes", for each index {name: {"type", "segments", "unindexed"
      rows}}; "filters", for each FILTER {"rows": keys found, "scan": the same without indexes, "plan": text}.
"""

import json
import sys

import lance


def main():
    operation, path, *rest = sys.argv[1:]
    ds = lance.dataset(path)
    if operation == "make":
        name, column, kind = rest
        ds.create_scalar_index(column, kind, name=name)
        return
    ds.validate()
    out = {"count": ds.count_rows(), "indexes": {}, "filters": []}
    for d in ds.describe_indices():
        if d.name.startswith("__lance"):
            continue
        stats = ds.stats.index_stats(d.name)
        out["indexes"][d.name] = {"type": d.index_type.upper(), "segments": len(d.segments), "unindexed": stats.get("num_unindexed_rows", -1)}
    for where in rest:
        one = {"plan": ds.scanner(columns=["id"], filter=where).explain_plan(True)}
        for key, use in (("rows", True), ("scan", False)):
            one[key] = sorted(ds.scanner(columns=["id"], filter=where, use_scalar_index=use).to_table()["id"].to_pylist())
        out["filters"].append(one)
    print(json.dumps(out))


main()
