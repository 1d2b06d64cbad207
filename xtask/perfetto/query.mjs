// Asks Perfetto's trace processor about a trace file.
//
//   node query.mjs ENGINE TRACE < QUERIES > ROWS
//
// ENGINE is the folder with engine_bundle.js and trace_processor.wasm. QUERIES is a JSON array of SQL
// texts. ROWS is a JSON array with one array of rows for each query; a row is an array of cells. Any
// error ends in exit status 1 and a line on standard error. Knows the processor's messages
// (trace_processor.proto), but no table.

import { readFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import vm from "node:vm";

const [engine, trace] = process.argv.slice(2);
const APPEND = 1, FINALIZE = 2, QUERY = 3;
const CHUNK = 1 << 20;

// --- The parts of Protocol Buffers that these messages use ---

function varint(value) {
  const bytes = [];
  for (let rest = BigInt.asUintN(64, BigInt(value)); ; rest >>= 7n) {
    if (rest < 128n) return [...bytes, Number(rest)];
    bytes.push(Number(rest & 127n) | 128);
  }
}

const number = (field, value) => Buffer.from([...varint(field << 3), ...varint(value)]);
const bytes = (field, value) => Buffer.concat([Buffer.from([...varint((field << 3) | 2), ...varint(value.length)]), value]);

function readVarint(data, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = data[at++];
    if (byte === undefined) return [undefined, at];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [value, at];
  }
}

// The fields of a message, as [number, value] with BigInt or Buffer values.
function fields(data) {
  const found = [];
  for (let at = 0; at < data.length; ) {
    let tag, value;
    [tag, at] = readVarint(data, at);
    const kind = Number(tag & 7n);
    if (kind === 0) [value, at] = readVarint(data, at);
    else {
      let length = kind === 1 ? 8n : 4n;
      if (kind === 2) [length, at] = readVarint(data, at);
      value = data.subarray(at, at + Number(length));
      at += Number(length);
    }
    found.push([Number(tag >> 3n), value]);
  }
  return found;
}

const one = (list, wanted) => list.find(([field]) => field === wanted)?.[1];
const text = (value) => (value === undefined ? "" : value.toString("utf8"));

function integer(value) {
  const signed = Number(BigInt.asIntN(64, value));
  if (!Number.isSafeInteger(signed)) throw new Error(`${value} is beyond what JSON numbers hold`);
  return signed;
}

// --- The processor, which is built as a worker for a browser ---

function start() {
  const scope = globalThis;
  // The bundle refuses to run if it detects Node.
  scope.process = undefined;
  scope.self = scope;
  scope.WorkerGlobalScope = function WorkerGlobalScope() {};
  scope.location = { href: `file://${engine}/` };
  scope.XMLHttpRequest = class {
    open(_method, url) {
      this.file = path.join(engine, path.basename(url));
    }
    send() {
      const file = readFileSync(this.file);
      this.status = 200;
      this.response = file.buffer.slice(file.byteOffset, file.byteOffset + file.length);
    }
  };
  console.log = console.warn = (line) => process.stderr.write(`trace processor: ${line}\n`);
  const bundle = path.join(engine, "engine_bundle.js");
  vm.runInThisContext(readFileSync(bundle, "utf8"), { filename: bundle });
  const replies = [];
  // A message that the processor writes to its port arrives here at once, without a second thread.
  const port = {
    postMessage(data) {
      replies.push(Buffer.from(data));
    },
  };
  scope.onmessage({ data: port });
  return { port, replies };
}

let sequence = 0;

// Sends a request and returns the responses up to the last one that belongs to it.
function ask(processor, method, argument, last) {
  const request = [number(1, ++sequence), number(2, method), argument].filter(Boolean);
  const message = Buffer.concat(request);
  processor.port.onmessage({ data: new Uint8Array(bytes(1, message)) });
  const data = Buffer.concat(processor.replies.splice(0));
  const responses = fields(data).map(([, body]) => fields(body));
  for (const response of responses) {
    const fatal = one(response, 5);
    if (fatal) throw new Error(`trace processor: ${text(fatal)}`);
  }
  if (!responses.some(last)) throw new Error(`trace processor: no answer to request ${sequence}`);
  return responses;
}

function load(processor) {
  const file = readFileSync(trace);
  for (let at = 0; at < file.length; at += CHUNK) {
    const answers = ask(processor, APPEND, bytes(101, file.subarray(at, at + CHUNK)), (answer) => one(answer, 201));
    const error = one(fields(one(answers[0], 201)), 2);
    if (error) throw new Error(`cannot read ${trace}: ${text(error)}`);
  }
  const end = ask(processor, FINALIZE, undefined, () => true);
  const result = one(end[0], 212);
  const error = result && one(fields(result), 1);
  if (error) throw new Error(`cannot read ${trace}: ${text(error)}`);
}

function query(processor, sql) {
  const isLast = (answer) => {
    const batch = one(fields(one(answer, 203) ?? Buffer.alloc(0)), 3);
    return one(fields(one(answer, 203)), 2) || (batch && one(fields(batch), 6));
  };
  const rows = [];
  let columns = 0;
  for (const answer of ask(processor, QUERY, bytes(103, bytes(1, Buffer.from(sql))), isLast)) {
    const result = fields(one(answer, 203));
    const error = one(result, 2);
    if (error) throw new Error(`${sql}: ${text(error)}`);
    columns += result.filter(([field]) => field === 1).length;
    for (const [field, batch] of result) {
      if (field === 3) rows.push(...cells(fields(batch), columns));
    }
  }
  return rows;
}

function cells(batch, columns) {
  const packed = (wanted) => {
    const data = one(batch, wanted) ?? Buffer.alloc(0);
    const values = [];
    for (let at = 0; at < data.length; ) {
      let value;
      [value, at] = readVarint(data, at);
      values.push(value);
    }
    return values;
  };
  const kinds = packed(1).map(Number);
  const integers = packed(2);
  const doubles = one(batch, 3) ?? Buffer.alloc(0);
  const strings = text(one(batch, 5)).split("\0");
  let [integersAt, doublesAt, stringsAt] = [0, 0, 0];
  const values = kinds.map((kind) => {
    switch (kind) {
      case 1:
        return null;
      case 2:
        return integer(integers[integersAt++]);
      case 3:
        return doubles.readDoubleLE(8 * doublesAt++);
      case 4:
        return strings[stringsAt++];
      default:
        throw new Error(`cell of unknown kind ${kind}`);
    }
  });
  const rows = [];
  for (let at = 0; at < values.length; at += columns) rows.push(values.slice(at, at + columns));
  return rows;
}

try {
  const queries = JSON.parse(readFileSync(0, "utf8"));
  const processor = start();
  // Instantiation takes a few iterations of the event loop.
  await new Promise((resolve) => setTimeout(resolve, 100));
  load(processor);
  process.stdout.write(JSON.stringify(queries.map((sql) => query(processor, sql))));
} catch (error) {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
