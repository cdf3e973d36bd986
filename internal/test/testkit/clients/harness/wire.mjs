// wire makes a fetch for a client: the real one, which keeps each attempt, and
// puts the model server's hook (internal/lab/mock/doc.go) into bodies.
export function wire({ hook, onAnswer } = {}) {
  const attempts = [];
  const send = async (input, init) => {
    const request = { body: JSON.parse(init?.body ?? 'null'), headers: new Headers(init?.headers) };
    if (hook && request.body) init = { ...init, body: JSON.stringify({ ...request.body, mock: hook }) };
    const attempt = { request, sent: performance.now() };
    attempts.push(attempt);
    const answer = await fetch(input, init);
    Object.assign(attempt, { came: performance.now(), status: answer.status, headers: answer.headers });
    await onAnswer?.(answer);
    return answer;
  };
  return { fetch: send, attempts };
}
