// Dumps tables through @lancedb/lancedb as canonical JSON on standard output:
//
//     node dump_table.mjs NODE_MODULES DIRECTORY TABLE...
//
// The answer is a list of {"schema": [...], "count": N, "rows": [[...], ...]}, spelled as dump_table.py spells it.
// Queries say useLsm(false): after FLUSH TABLES the base holds every row, and 0.39 counts the base only.
import { createRequire } from 'node:module';

const [modules, directory, ...names] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { connect } = require('@lancedb/lancedb');
const { DataType, TimeUnit } = require('apache-arrow'); // the copy that lancedb itself loads

const unit = (t) => ({ [TimeUnit.SECOND]: 's', [TimeUnit.MILLISECOND]: 'ms', [TimeUnit.MICROSECOND]: 'us', [TimeUnit.NANOSECOND]: 'ns' })[t.unit];

function canonicalType(t) {
  if (DataType.isBool(t)) return 'bool';
  if (DataType.isInt(t)) return (t.isSigned ? 'int' : 'uint') + t.bitWidth;
  if (DataType.isFloat(t)) return 'float' + [16, 32, 64][t.precision];
  if (DataType.isDecimal(t)) return `decimal${t.bitWidth}(${t.precision},${t.scale})`;
  if (DataType.isTimestamp(t)) return t.timezone ? `timestamp[${unit(t)},${t.timezone}]` : `timestamp[${unit(t)}]`;
  if (DataType.isTime(t)) return `time${t.bitWidth}[${unit(t)}]`;
  if (DataType.isDuration(t)) return `duration[${unit(t)}]`;
  if (DataType.isDate(t)) return t.unit === 0 ? 'date32' : 'date64';
  if (DataType.isFixedSizeBinary(t)) return `fixed_size_binary(${t.byteWidth})`;
  if (DataType.isLargeUtf8(t)) return 'large_utf8';
  if (DataType.isUtf8(t)) return 'utf8';
  if (DataType.isLargeBinary(t)) return 'large_binary';
  if (DataType.isBinary(t)) return 'binary';
  return String(t);
}

// decimalText spells a two's complement integer of 32-bit words, least significant first, with the given scale.
function decimalText(words, scale) {
  let n = 0n;
  for (let i = words.length - 1; i >= 0; i--) n = (n << 32n) | BigInt(words[i]);
  n = BigInt.asIntN(32 * words.length, n);
  const negative = n < 0n;
  let digits = (negative ? -n : n).toString();
  if (scale > 0) {
    digits = digits.padStart(scale + 1, '0');
    digits = digits.slice(0, -scale) + '.' + digits.slice(-scale);
  }
  return (negative ? '-' : '') + digits;
}

function cell(type, data, vector, i) {
  const temporal = DataType.isTimestamp(type) || DataType.isTime(type) || DataType.isDuration(type) || DataType.isDate(type);
  if (temporal) return String(data.values[i]); // get() would pass through a JavaScript number
  if (DataType.isDecimal(type)) {
    const stride = type.bitWidth / 32;
    return decimalText(data.values.subarray(i * stride, (i + 1) * stride), type.scale);
  }
  const v = vector.get(i);
  if (v instanceof Uint8Array) return Buffer.from(v).toString('hex');
  return Object.is(v, -0) ? '-0' : String(v);
}

const connection = await connect(directory);
const listed = await connection.tableNames({ limit: 1000000 });

async function dump(name) {
  if (!listed.includes(name)) throw new Error(`lancedb lists ${listed}, not ${name}`);
  const base = await connection.openTable(name);
  const table = await base.query().useLsm(false).toArrow();
  const rows = [];
  for (const batch of table.batches) {
    const first = rows.length;
    for (let i = 0; i < batch.numRows; i++) rows.push(new Array(table.schema.fields.length));
    table.schema.fields.forEach((field, c) => {
      const vector = batch.getChildAt(c);
      const data = vector.data[0];
      for (let i = 0; i < batch.numRows; i++) {
        rows[first + i][c] = vector.isValid(i) ? cell(field.type, data, vector, i) : null;
      }
    });
  }
  const schema = (await base.schema()).fields.map((f) => ({ name: f.name, type: canonicalType(f.type), nullable: f.nullable }));
  const count = await base.countRows();
  if (count !== rows.length) throw new Error(`countRows() is ${count}, a scan has ${rows.length} rows`);
  return { schema, count: rows.length, rows };
}

const answers = [];
for (const name of names) answers.push(await dump(name));
process.stdout.write(JSON.stringify(answers));
