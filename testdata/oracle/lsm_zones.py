"""Looks at the zone maps of a table of ours through pylance, for tests of lsm/.

    lsm_zones.py PATH FILTER...

Validates the table and prints one JSON object: "index", the zone maps with their column, the number of their segments and of the rows
they do not know; "other", the names of the other indexes; "rows", for each FILTER the keys found through zone maps; "scan", the same
without indexes; "plan", the plan of each.
"""

import json
import sys

import lance


def main():
    _, path, *filters = sys.argv
    ds = lance.dataset(path)
    ds.validate()
    out = {"index": [], "other": [], "rows": [], "scan": [], "plan": []}
    ds.list_indices()
    for d in ds.describe_indices():
        if d.index_type.upper() == "ZONEMAP":
            stats = ds.stats.index_stats(d.name)
            out["index"].append(
                {"name": d.name, "columns": d.field_names, "segments": len(d.segments), "unindexed": stats.get("num_unindexed_rows", -1)}
            )
        else:
            out["other"].append(d.name)
    for where in filters:
        for key, use in (("rows", True), ("scan", False)):
            found = ds.scanner(columns=["id"], filter=where, use_scalar_index=use).to_table()["id"].to_pylist()
            out[key].append(sorted(found))
        out["plan"].append(ds.scanner(columns=["id"], filter=where).explain_plan(True))
    print(json.dumps(out))


main()
