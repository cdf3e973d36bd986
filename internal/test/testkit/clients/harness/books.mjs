// What the gateway and the model server have in their books.

import { setTimeout as pause } from 'node:timers/promises';

async function json(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

// leases are the calls of a tenant that the gateway has let in.
export async function leases(gw, tenant) {
  const all = (await json(`${gw.admin}/api/v1/leases`)).leases;
  return all.filter((lease) => lease.tenant === tenant);
}

// upstream are the counters of the model server.
export const upstream = (gw) => json(`${gw.upstream}/_stats`);

// counted sums a counter of the gateway's over the series with these labels.
export async function counted(gw, name, labels) {
  let sum = 0;
  for (const line of (await (await fetch(`${gw.admin}/metrics`)).text()).split('\n')) {
    if (!line.startsWith(`${name}{`)) continue;
    if (Object.entries(labels).every(([label, value]) => line.includes(`${label}="${value}"`))) {
      sum += Number(line.slice(line.lastIndexOf(' ')));
    }
  }
  return sum;
}

// eventually waits until a figure is as wanted. What it is for happens at once on
// an idle machine; a busy one may take a hundred times as long.
export async function eventually(what, figure, want, seconds = 30) {
  const last = performance.now() + seconds * 1000;
  for (;;) {
    const got = await figure();
    if (got === want) return;
    if (performance.now() > last) throw new Error(`${what}: ${got}, want ${want}`);
    await pause(5);
  }
}

// hold takes the only slot of a tenant, and returns what frees it.
export async function hold(gw, tenant, key) {
  const gone = new AbortController();
  const body = { model: 'gpt-4o', messages: [{ role: 'user', content: 'hold' }], stream: true, mock: { stall_after: 0 } };
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const answer = await fetch(`${gw.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify(body), headers, signal: gone.signal });
  if (answer.status !== 200) throw new Error(`the slot of ${tenant} is not free: ${answer.status} ${await answer.text()}`);
  return async () => {
    gone.abort();
    await answer.body.cancel().catch(() => {}); // until then it is kept: fetch ends calls whose answers nobody holds any more
    await eventually(`leases of ${tenant}`, async () => (await leases(gw, tenant)).length, 0);
  };
}
