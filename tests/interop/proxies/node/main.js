// A thin client in Node, from the .proto itself: write, be redirected, read.
//
//     main.js PROTO_ROOT WRITE_PROXY READ_PROXY STREAM
//
// WRITE_PROXY does not own the stream: the first write is redirected to the owner. Prints the host
// that wrote, then each record as it is read.
'use strict';

const zlib = require('zlib');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');

const STREAMED = 100;
const WITHIN_MS = 20000;

const [protoRoot, writeProxy, readProxy, stream] = process.argv.slice(2);
const loaded = loader.loadSync(
  ['tailrace/protocol/proxy/write_proxy.proto', 'tailrace/protocol/proxy/read_proxy.proto'],
  { includeDirs: [protoRoot], enums: String, longs: Number, keepCase: true, defaults: true },
);
const { WriteProxy, ReadProxy } = grpc.loadPackageDefinition(loaded).tailrace.proxy.v1;
const clients = [];

function connect(Service, host) {
  const client = new Service(host, grpc.credentials.createInsecure());
  clients.push(client);
  return client;
}

// Covers the stream's name, then the payloads.
function checksum(...payloads) {
  return payloads.reduce((value, payload) => zlib.crc32(payload, value), zlib.crc32(stream));
}

function deadline() {
  return { deadline: Date.now() + WITHIN_MS };
}

// Follows redirects; returns the host that took the record.
async function write(first, payload) {
  let host = first;
  const tried = [];
  while (tried.length < 3) {
    const client = connect(WriteProxy, host);
    const context = { tried_hosts: tried, crc32: checksum(payload) };
    const { header } = await new Promise((resolve, reject) => {
      client.Write({ stream, payload, context }, deadline(), (error, answer) =>
        error ? reject(error) : resolve(answer));
    });
    if (header.code === 'SUCCESS') return host;
    if (header.code !== 'FOUND') throw new Error(JSON.stringify(header));
    console.log('redirected to', header.location);
    tried.push(host);
    host = header.location.split(';')[2];
  }
  throw new Error('redirected too often');
}

// Sends all records at once, and takes the answers in the order of the requests.
async function writeStream(host) {
  const call = connect(WriteProxy, host).WriteStream(deadline());
  call.write({ open: { stream, context: { crc32: checksum() } } });
  for (let id = 1; id <= STREAMED; id++) {
    const payload = Buffer.from(`node ${id}`);
    call.write({ records: { id, payloads: [payload], crc32: checksum(payload) } });
  }
  call.end();
  let next = 0;
  for await (const answer of call) {
    if (answer.header.code !== 'SUCCESS' || answer.id !== next++) {
      throw new Error(JSON.stringify(answer));
    }
  }
  if (next !== STREAMED + 1) throw new Error(`${next} answers`);
}

async function read(host) {
  const request = { stream, edge: 'OLDEST', records_max: STREAMED + 1, tail: true };
  for await (const answer of connect(ReadProxy, host).Read(request, deadline())) {
    if (answer.header.code !== 'SUCCESS') throw new Error(JSON.stringify(answer.header));
    for (const record of answer.records) console.log('read', record.payload.toString());
  }
}

async function main() {
  const owner = await write(writeProxy, Buffer.from('node 0'));
  console.log('owner', owner);
  await writeStream(owner);
  await read(readProxy);
}

main().then(
  () => clients.forEach((client) => client.close()),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
