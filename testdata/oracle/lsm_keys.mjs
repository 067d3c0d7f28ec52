// Works through lancedb on a table of ours whose key has two columns (see lsm_keys.py):
//
//     node lsm_keys.mjs NODE_MODULES DIRECTORY OPERATION...
//
// Operations: append:ID:N, delete:SQL, update:N:SQL, optimize. Then it prints {base: [[id, n], ...], lsm: [[id, n], ...], looked:
// [[id, n], ...]}: the rows of the base, those with the flushed generations, and the base read through filters on both key columns.
import { createRequire } from 'node:module';

const [modules, directory, ...operations] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { connect } = require('@lancedb/lancedb');

const tag = (id) => String(Math.floor(id / 10)).padStart(7, '0');
for (const operation of operations) {
  const table = await (await connect(directory)).openTable('t');
  const [kind, ...rest] = operation.split(':');
  if (kind === 'append') {
    const [id, n] = rest.map(Number);
    await table.add([{ v: n % 4 === 0 ? null : `v${n}`, id, n, tag: tag(id) }]);
  } else if (kind === 'delete') {
    await table.delete(rest[0]);
  } else if (kind === 'update') {
    const n = Number(rest[0]);
    await table.update({ where: rest[1], valuesSql: { n: String(n), v: n % 4 === 0 ? 'NULL' : `'v${n}'` } });
  } else if (kind === 'optimize') {
    await table.optimize();
  } else {
    throw new Error(`unknown operation ${operation}`);
  }
}
const table = await (await connect(directory)).openTable('t');
const rows = async (q) => (await q.select(['id', 'n']).toArray()).map((r) => [Number(r.id), r.n]).sort((a, b) => a[0] - b[0]);
const out = { base: await rows(table.query().useLsm(false)), lsm: await rows(table.query()), looked: [] };
for (const [id] of out.base) {
  out.looked.push(...(await rows(table.query().useLsm(false).where(`tag = '${tag(id)}' and id = ${id}`))));
}
console.log(JSON.stringify(out));
process.exit(0);
