// Reads a table of ours (t: id int64 primary key, name utf8) as a new reader of lancedb, one that writes nothing:
//
//     node lsm_reader.mjs NODE_MODULES DIRECTORY ID...
//
// prints {base: [[id, name], ...], lsm: [[id, name], ...], points: [[name, ...], ...]}: the base table alone, the base table with
// the flushed generations, and for each ID what a look-up of it finds there.
import { createRequire } from 'node:module';

const [modules, directory, ...ids] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { connect } = require('@lancedb/lancedb');

const db = await connect(directory);
const table = await db.openTable('t');
const rows = async (q) => (await q.toArray()).map((r) => [Number(r.id), r.name]).sort((a, b) => a[0] - b[0]);
const out = { base: await rows(table.query().useLsm(false)), lsm: await rows(table.query()), points: [] };
for (const id of ids) out.points.push((await rows(table.query().where(`id = ${id}`))).map((r) => r[1]));
console.log(JSON.stringify(out));
process.exit(0);
