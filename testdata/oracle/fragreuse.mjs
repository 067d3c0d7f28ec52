// Queries a table through lancedb, with what its indexes cover.
//
//     node fragreuse.mjs NODE_MODULES DIRECTORY TABLE FILTER...
//
// Prints one JSON object: {"filters": [{"plan": TEXT, "ids": [ascending]}], "indexed": {index: rows}}.

import { createRequire } from 'node:module';
import path from 'node:path';

const [modules, directory, name, ...filters] = process.argv.slice(2);
const { connect } = createRequire(path.join(modules, 'x.js'))('@lancedb/lancedb');

const table = await (await connect(directory)).openTable(name);
const answer = { filters: [], indexed: {} };
for (const filter of filters) {
  const query = () => table.query().where(filter).select(['id']);
  const rows = await query().toArray();
  const ids = rows.map((r) => Number(r.id)).sort((a, b) => a - b);
  answer.filters.push({ plan: await query().explainPlan(true), ids });
}
for (const index of await table.listIndices()) {
  answer.indexed[index.name] = (await table.indexStats(index.name))?.numIndexedRows ?? null;
}
console.log(JSON.stringify(answer));
