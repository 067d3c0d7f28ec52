"""Looks at a table of ours through pylance, for tests of lsm/.

    lsm_table.py keys PATH COLUMN VALUE...

keys  validates the table and prints one JSON object: "index", the indexes over COLUMN with their segments; "uncovered", the number of
      rows that the index does not know; "rows", for each VALUE what a filter on it finds through the index; "scan", the same without
      indexes; "used", whether the plan of the filter uses the index.
"""

import json
import sys

import lance


def main():
    _, path, column, *values = sys.argv[1:]
    ds = lance.dataset(path)
    ds.validate()
    out = {"index": [], "rows": [], "scan": [], "used": True}
    for d in ds.describe_indices():
        if column in d.field_names:
            out["index"].append({"name": d.name, "type": d.index_type, "segments": len(d.segments)})
    stats = ds.stats.index_stats(out["index"][0]["name"]) if out["index"] else {}
    out["uncovered"] = stats.get("num_unindexed_rows", -1)
    for v in values:
        where = f"{column} = {v}"
        out["rows"].append(ds.to_table(filter=where).num_rows)
        out["scan"].append(ds.scanner(filter=where, use_scalar_index=False).to_table().num_rows)
        out["used"] = out["used"] and "ScalarIndexQuery" in ds.scanner(filter=where).explain_plan(True)
    print(json.dumps(out))


main()
