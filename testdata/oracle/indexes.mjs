// Builds scalar indexes with @lancedb/lancedb and answers filters, with canonical JSON on standard output:
//
//     node indexes.mjs NODE_MODULES build DIRECTORY TABLE FILE    FILE: [{column, kind, name}]; prints {name: error}
//     node indexes.mjs NODE_MODULES query DIRECTORY TABLE FILE    FILE: [filter]; prints [{error, indexed, plan}]
//
// Which rows match without an index is pylance's to say: this library has no switch for it.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [modules, command, directory, name, file] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { connect, Index } = require('@lancedb/lancedb');

const request = JSON.parse(readFileSync(file, 'utf8'));
const db = await connect(directory);
const table = await db.openTable(name);

async function build() {
  const refused = {};
  for (const index of request) {
    const config = { bitmap: Index.bitmap, btree: Index.btree }[index.kind]();
    try {
      await table.createIndex(index.column, { config, name: index.name, waitTimeoutSeconds: 60 });
    } catch (error) {
      refused[index.name] = String(error).slice(0, 300);
    }
  }
  return refused;
}

async function query() {
  const answers = [];
  for (const filter of request) {
    const answer = { error: '', indexed: [], plan: '' };
    try {
      const rows = await table.query().useLsm(false).where(filter).select(['id']).toArray();
      answer.indexed = rows.map((r) => Number(r.id)).sort((a, b) => a - b);
      answer.plan = await table.query().useLsm(false).where(filter).select(['id']).explainPlan(true);
    } catch (error) {
      answer.error = String(error).slice(0, 300);
    }
    answers.push(answer);
  }
  return answers;
}

process.stdout.write(JSON.stringify(await { build, query }[command]()));
