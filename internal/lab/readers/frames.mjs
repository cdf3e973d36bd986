// Reads frames (four bytes of length, then the text) and answers each with a JSON frame.
export async function serve(read) {
  let rest = Buffer.alloc(0);
  for await (const chunk of process.stdin) {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE()) {
      const end = 4 + rest.readUInt32BE();
      const answer = Buffer.from(JSON.stringify(await read(rest.subarray(4, end))));
      const head = Buffer.alloc(4);
      head.writeUInt32BE(answer.length);
      process.stdout.write(Buffer.concat([head, answer]));
      rest = rest.subarray(end);
    }
  }
}

export async function attempt(read, ...args) {
  try {
    return { read: await read(...args) };
  } catch (e) {
    return { error: String(e) };
  }
}
