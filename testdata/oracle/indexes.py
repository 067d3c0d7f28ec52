"""Builds scalar indexes with pylance and answers filters with and without them.

indexes.py build TABLE FILE   FILE: [{column, kind, name, params}]; prints {name: error} of what was refused
indexes.py query TABLE FILE   FILE: [filter]; prints [{error, indexed, scanned, plan, bytes}]
indexes.py append TABLE FILE  FILE: {rows: n}; copies the first n rows behind the others, which leaves write seeds
indexes.py optimize TABLE FILE  FILE: {}; lets every index take in the new fragments
"""

import json
import re
import sys

import lance
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
        answer = {"error": "", "indexed": [], "scanned": [], "plan": "", "bytes": 0}
        answer["scanned"] = ids(dataset, text, False)
        try:
            answer["indexed"] = ids(dataset, text, True)
            answer["plan"] = dataset.scanner(columns=["id"], filter=text).explain_plan(True)
        except Exception as error:
            answer["error"] = str(error)[:300]
        answers.append(answer)
    return answers


def analyze(path, request):
    dataset = lance.dataset(path)
    answers = []
    for text in request:
        plan = dataset.scanner(columns=["id"], filter=text).analyze_plan()
        answers.append({"plan": plan, "bytes": sum(int(n) for n in re.findall(r"bytes_read=(\d+)", plan))})
    return answers


def append(path, request):
    dataset = lance.dataset(path)
    rows = dataset.to_table(limit=request["rows"])
    lance.write_dataset(rows, path, mode="append")
    return {}


def optimize(path, request):
    lance.dataset(path).optimize.optimize_indices()
    return {}


def main():
    commands = {"build": build, "query": query, "analyze": analyze, "append": append, "optimize": optimize}
    with open(sys.argv[3], encoding="utf-8") as file:
        request = json.load(file)
    json.dump(commands[sys.argv[1]](sys.argv[2], request), sys.stdout)


if __name__ == "__main__":
    main()
