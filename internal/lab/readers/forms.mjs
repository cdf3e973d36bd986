import { Readable, Writable } from 'node:stream';
import busboy from 'busboy';
import formidable from 'formidable';
import { attempt, serve } from './frames.mjs';

const add = (found, name, value) => {
  if (!Object.hasOwn(found, name)) Object.defineProperty(found, name, { value: [], enumerable: true });
  found[name].push(value);
};
const text = (buffer) => Buffer.from(buffer).toString('base64');

const withBusboy = (kind, body) =>
  new Promise((resolve, reject) => {
    const fields = {};
    const files = {};
    const parser = busboy({ headers: { 'content-type': kind }, defParamCharset: 'utf8' });
    parser.on('field', (name, value) => add(fields, name, text(value)));
    parser.on('file', (name, stream, info) => {
      const chunks = [];
      stream.on('data', (chunk) => chunks.push(chunk));
      stream.on('end', () => add(files, name, [info.filename, text(Buffer.concat(chunks))]));
      stream.on('error', reject);
    });
    parser.on('close', () => resolve({ fields, files }));
    parser.on('error', reject);
    parser.end(body);
  });

const withFormidable = async (kind, body) => {
  const contents = new Map();
  const form = formidable({
    allowEmptyFiles: true,
    minFileSize: 0,
    fileWriteStreamHandler: (file) => {
      const chunks = [];
      contents.set(file, chunks);
      return new Writable({ write: (chunk, _, done) => (chunks.push(chunk), done()) });
    },
  });
  const request = Readable.from([body]);
  request.headers = { 'content-type': kind, 'content-length': String(body.length) };
  const [parsed, kept] = await form.parse(request);
  const fields = {};
  const files = {};
  for (const [name, values] of Object.entries(parsed)) for (const value of values) add(fields, name, text(value));
  for (const [name, values] of Object.entries(kept)) {
    for (const file of values) add(files, name, [file.originalFilename, text(Buffer.concat(contents.get(file)))]);
  }
  return { fields, files };
};

await serve(async (frame) => {
  const end = frame.indexOf('\n');
  const kind = frame.subarray(0, end).toString('latin1');
  const body = frame.subarray(end + 1);
  return { busboy: await attempt(withBusboy, kind, body), formidable: await attempt(withFormidable, kind, body) };
});
