// Reads tables through @lancedb/lancedb and writes what it sees as Arrow IPC files:
//
//     node corpus_read.mjs NODE_MODULES LIST
//
// LIST is a JSON file [{"name", "db", "out", "take": [offsets], "where": text}, ...]. out gets the whole table, out.take
// the rows at the offsets, out.where those that pass the filter. Prints {NAME: "ok" or what went wrong}.
import { createRequire } from 'node:module';
import { readFileSync, writeFileSync } from 'node:fs';

const [modules, list] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { connect } = require('@lancedb/lancedb');
const { tableToIPC } = require('apache-arrow'); // the copy that lancedb itself loads

const save = async (path, query) => writeFileSync(path, tableToIPC(await query.toArrow(), 'file'));
const verdicts = {};
for (const e of JSON.parse(readFileSync(list, 'utf8'))) {
  try {
    const table = await (await connect(e.db)).openTable(e.name);
    await save(e.out, table.query());
    await save(e.out + '.take', table.takeOffsets(e.take));
    await save(e.out + '.where', table.query().where(e.where));
    verdicts[e.name] = 'ok';
  } catch (err) {
    verdicts[e.name] = String(err).slice(0, 400);
  }
}
console.log(JSON.stringify(verdicts));
