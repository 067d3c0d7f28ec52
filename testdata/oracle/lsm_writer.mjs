// Writes through the MemWAL of lancedb, as a foreign writer of a shard:
//
//     node lsm_writer.mjs NODE_MODULES create|replay DIRECTORY ID
//
// create makes table t (id int64 primary key, name utf8; unsharded), upserts the rows ID and ID+1 and exits without closing, so
// that they are in the WAL only. replay opens it as a new writer (claim, sentinel, replay), upserts likewise, closes, which
// flushes, and prints the rows of the table as JSON: [[id, name], ...] by id.
import { createRequire } from 'node:module';

const [modules, mode, directory, id] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { connect, makeArrowTable } = require('@lancedb/lancedb');
const arrow = require('apache-arrow');

const schema = new arrow.Schema([new arrow.Field('id', new arrow.Int64(), false), new arrow.Field('name', new arrow.Utf8(), true)]);
const db = await connect(directory);
let table;
if (mode === 'create') {
  table = await db.createEmptyTable('t', schema);
  await table.setUnenforcedPrimaryKey('id');
  await table.setLsmWriteSpec({ specType: 'unsharded' });
} else {
  table = await db.openTable('t');
}
const rows = [Number(id), Number(id) + 1].map((n) => ({ id: BigInt(n), name: `ref ${n}` }));
await table.mergeInsert('id').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(makeArrowTable(rows, { schema }));
if (mode === 'replay') {
  await table.closeLsmWriters();
  const out = (await table.query().toArray()).map((r) => [Number(r.id), r.name]);
  console.log(JSON.stringify(out.sort((a, b) => a[0] - b[0])));
}
process.exit(0);
