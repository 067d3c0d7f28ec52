// Asks lancedb questions about a table of ours, its base alone:
//
//     node lsm_index.mjs NODE_MODULES DIRECTORY FILTER...
//
// Prints one JSON object: {"count", "filters": [{"plan": TEXT, "rows": [keys, ascending]}], "indexed": {index: rows}}, or {"error": TEXT} if
// the table cannot be opened.
import { createRequire } from 'node:module';

const [modules, directory, ...filters] = process.argv.slice(2);
const { connect } = createRequire(modules + '/')('@lancedb/lancedb');

const answer = { filters: [], indexed: {} };
try {
  const table = await (await connect(directory)).openTable('t');
  answer.count = await table.countRows();
  for (const filter of filters) {
    const query = () => table.query().useLsm(false).where(filter).select(['id']);
    const rows = (await query().toArray()).map((r) => Number(r.id)).sort((a, b) => a - b);
    answer.filters.push({ plan: await query().explainPlan(true), rows });
  }
  for (const index of await table.listIndices()) {
    answer.indexed[index.name] = (await table.indexStats(index.name))?.numIndexedRows ?? null;
  }
} catch (e) {
  answer.error = String(e);
}
console.log(JSON.stringify(answer));
process.exit(0);
