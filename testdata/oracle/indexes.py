"""Builds scalar indexes with pylance and answers filters with and without them.

indexes.py build TABLE FILE   FILE: [{column, kind, name, params}]; prints {name: error} of what was refused
indexes.py query TABLE FILE   FILE: [filter]; prints [{error, indexed, scanned, plan}]
indexes.py append TABLE FILE  FILE: {rows: n}; copies the first n rows behind the others, which leaves write seeds
indexes.py optimize TABLE FILE  FILE: {}; lets every index take in the new fragments
indexes.py golden FOLDER          writes the index files of testdata/golden/indexes anew
"""

import decimal
import json
import os
import shutil
import sys
import tempfile

import lance
import numpy
import pyarrow
from lance.indices import IndexConfig


def build(path, request):
    refused = {}
    dataset = lance.dataset(path)
    for index in request:
        config = IndexConfig(index_type=index["kind"], parameters=index.get("params") or {})
        try:
            dataset.create_scalar_index(index["column"], config, name=index["name"])
        except Exception as error:  # which types a kind refuses is what the test asks
            refused[index["name"]] = str(error)[:300]
    return refused


def ids(dataset, text, use_index):
    table = dataset.scanner(columns=["id"], filter=text, use_scalar_index=use_index).to_table()
    return sorted(table.column("id").to_pylist())


def query(path, request):
    dataset = lance.dataset(path)
    answers = []
    for text in request:
        answer = {"error": "", "indexed": [], "scanned": [], "plan": ""}
        answer["scanned"] = ids(dataset, text, False)
        try:
            answer["indexed"] = ids(dataset, text, True)
            answer["plan"] = dataset.scanner(columns=["id"], filter=text).explain_plan(True)
        except Exception as error:
            answer["error"] = str(error)[:300]
        answers.append(answer)
    return answers


def append(path, request):
    dataset = lance.dataset(path)
    rows = dataset.to_table(limit=request["rows"])
    lance.write_dataset(rows, path, mode="append")
    return {}


def optimize(path, request):
    lance.dataset(path).optimize.optimize_indices()
    return {}


def golden(folder):
    """Two fragments of 50 rows with deleted ones; zones of 10 rows."""
    bits = numpy.arange(100).astype(float).view(numpy.uint64)
    bits[0:10] = 0xFFF8000000000001  # negative NaN with a payload
    bits[10:20] = 0x7FF8000000000000
    bits[40] = 0x8000000000000000
    floats = pyarrow.array(bits.view(numpy.float64), mask=numpy.arange(100) % 9 == 5)
    columns = {
        "id": list(range(100)),
        "f": floats,
        "s": [None if i % 7 == 3 or 60 <= i < 80 else "v%02d" % (i // 3) for i in range(100)],
        "d": pyarrow.array([decimal.Decimal(i * i - 50) for i in range(100)], pyarrow.decimal128(12, 2)),
        "l": [[i, None] if i % 2 else None for i in range(100)],
    }
    with tempfile.TemporaryDirectory() as work:
        dataset = lance.write_dataset(pyarrow.table(columns), work + "/t.lance", max_rows_per_file=50)
        dataset.delete("(id >= 3 and id < 7) or id = 9 or (id >= 20 and id < 31) or id = 49 or id = 50")
        kinds = {"zonemap": {"rows_per_zone": 10}, "bitmap": {}, "bloomfilter": {"number_of_items": 10, "probability": 0.01}}
        for kind, parameters in kinds.items():
            for column in ("f", "s", "d", "l"):
                if kind != "zonemap" and column == "l" or kind == "bloomfilter" and column == "d":
                    continue  # no such index
                dataset.create_scalar_index(column, IndexConfig(index_type=kind, parameters=parameters), name=kind + "_" + column)
        for index in dataset.describe_indices():
            source = work + "/t.lance/_indices/" + str(index.segments[0].uuid)
            (name,) = os.listdir(source)
            shutil.copy(source + "/" + name, os.path.join(folder, index.name + ".lance"))


def main():
    if sys.argv[1] == "golden":
        golden(sys.argv[2])
        return
    commands = {"build": build, "query": query, "append": append, "optimize": optimize}
    with open(sys.argv[3], encoding="utf-8") as file:
        request = json.load(file)
    json.dump(commands[sys.argv[1]](sys.argv[2], request), sys.stdout)


if __name__ == "__main__":
    main()
