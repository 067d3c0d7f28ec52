// Makes and reads flushed generations through the MemWAL of lancedb:
//
//     node lsm_generation.mjs NODE_MODULES make|read DIRECTORY ROWS
//
// make   for each key type one table called after it (key KEY not null, n int64), unsharded, with two generations: the first has
//        keys 0..ROWS-1 and again those divisible by 3, the second those divisible by 5, with n raised by 1000000.
//        They lie at DIRECTORY/TYPE.lance/_mem_wal/SHARD/????????_gen_{1,2}.
// read   prints {TYPE: [rows, sum of n, n of key 1, n of key 5]} as a new reader sees it: the newest row of each key.
import { createRequire } from 'node:module';

const [modules, mode, directory, count] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { connect, makeArrowTable } = require('@lancedb/lancedb');
const arrow = require('apache-arrow');

const text = (n) => (n === 0 ? '' : `key ${(n * 7919) % 100003}`);
const kinds = {
  int32: [new arrow.Int32(), (n) => ((n * 7919) % 100003) - 50000],
  int64: [new arrow.Int64(), (n) => BigInt(((n * 7919) % 100003) - 50000)],
  utf8: [new arrow.Utf8(), text],
  binary: [new arrow.Binary(), (n) => Buffer.from(text(n) + '\0\xff', 'latin1')],
};

async function upsert(table, schema, rows) {
  await table.mergeInsert('key').whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(makeArrowTable(rows, { schema }));
}

const db = await connect(directory);
const found = {};
for (const [name, [type, key]] of Object.entries(kinds)) {
  if (mode === 'read') {
    const table = await db.openTable(name);
    const rows = await table.query().toArray();
    let sum = 0;
    for (const r of rows) sum += Number(r.n);
    found[name] = [rows.length, sum];
    for (const n of [1, 5]) {
      const k = key(n);
      const sql = name === 'binary' ? `x'${k.toString('hex')}'` : name === 'utf8' ? `'${k}'` : k;
      const hit = await table.query().where(`key = ${sql}`).toArray();
      found[name].push(hit.length === 1 ? Number(hit[0].n) : `${hit.length} rows`);
    }
    continue;
  }
  const schema = new arrow.Schema([new arrow.Field('key', type, false), new arrow.Field('n', new arrow.Int64(), true)]);
  let table = await db.createEmptyTable(name, schema);
  await table.setUnenforcedPrimaryKey('key');
  await table.setLsmWriteSpec({ specType: 'unsharded' });
  const all = Array.from({ length: Number(count) }, (_, i) => i);
  for (const part of [all, all.filter((n) => n % 3 === 0)]) {
    await upsert(table, schema, part.map((n) => ({ key: key(n), n: BigInt(n) })));
  }
  await table.closeLsmWriters();
  table = await db.openTable(name);
  await upsert(table, schema, all.filter((n) => n % 5 === 0).map((n) => ({ key: key(n), n: BigInt(n + 1000000) })));
  await table.closeLsmWriters();
}
if (mode === 'read') console.log(JSON.stringify(found));
process.exit(0);
