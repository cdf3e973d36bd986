// Keeps the state fresh: the snapshot each second, what the view needs besides every two (spend every thirty),
// and the events as they come. Nothing is asked for by a page that nobody sees.

import { get, request } from './api.js';
import { assign } from './colours.js';
import { sample } from './series.js';
import { changed, happened, may, sampled, state } from './state.js';

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const paths = { tenants: 'api/v1/tenants', fairness: 'api/v1/fairness', leases: 'api/v1/leases', policy: 'api/v1/policy', keys: 'api/v1/keys', spend: 'api/v1/spend', overrides: 'api/v1/overrides' };
const page = 1000; // tenants of one answer
const asked = {}; // by what is needed, where it was asked for

// pathOf asks for the tenant whose page it is, or for those that the filter is of where there are too many to have all.
function pathOf(name, tenant) {
  if (name === 'leases' || name === 'overrides') return paths[name];
  if (name === 'spend') return `${paths[name]}?by=${state.spendBy}`;
  if (tenant) return `${paths[name]}?tenant=${encodeURIComponent(tenant)}`;
  if (name === 'keys' || (state.snapshot?.tenants ?? 0) <= page) return paths[name];
  return `${paths[name]}?limit=${page}&q=${encodeURIComponent(state.filter.trim())}`;
}

// needs tells what the view wants to be asked for, and of which tenant.
export async function poll(needs) {
  for (let turn = 0; ; turn++) {
    if (!document.hidden && !state.paused) {
      try {
        state.me ??= await get('api/v1/me');
        if (may('view')) {
          const snapshot = await get('api/v1/snapshot');
          await nameTenants(snapshot.policy_hash);
          sample(snapshot);
          sampled(snapshot);
        } else state.live = 'live';
        state.problem = '';
        state.problemSince = null;
        const { names, tenant } = needs();
        for (const name of names) if (turn % (name === 'spend' ? 30 : 2) === 0 || asked[name] !== pathOf(name, tenant)) await refresh(name, tenant);
      } catch (error) {
        state.problem = error.status ? error.message : 'The gateway does not answer';
        state.problemSince ??= Date.now();
        changed();
      }
    }
    await sleep(1000);
  }
}

let named = ''; // the policy whose tenants are known, and have colours

async function nameTenants(policy) {
  if (policy === named) return;
  const { tenants } = await get(`${paths.tenants}?limit=${page}`);
  state.tenants = new Set(tenants.map((t) => t.name));
  assign([...state.tenants]);
  named = policy;
}

export async function refresh(name, tenant) {
  const path = pathOf(name, tenant);
  const answer = await get(path);
  asked[name] = path;
  state.answers[name] = answer;
  changed();
}

// explain asks why a request was refused, once. The event of a refusal may be here before the gateway can explain it, so
// what it does not know of a refusal of the last minute is asked again.
export function explain(id) {
  if (state.explained.has(id)) return;
  state.explained.set(id, {});
  get(`api/v1/explain?request=${encodeURIComponent(id)}`).then(
    (answer) => state.explained.set(id, { answer }),
    (error) => {
      state.explained.set(id, { error: error.message });
      const fresh = (e) => e.request === id && e.kind === 'refused' && Date.now() - e.at < 60000;
      if (!error.status || state.events.some(fresh)) setTimeout(() => state.explained.delete(id), 2000);
    },
  ).finally(changed);
}

// follow reads the events for ever. The first time it asks for all that are kept: by the
// id of an event that no process has.
export async function follow() {
  let last = '0-0';
  for (;;) {
    if (!may('view')) {
      await sleep(200);
      continue;
    }
    try {
      const answer = await request('api/v1/events', { headers: { 'Last-Event-ID': last } });
      state.live = 'live';
      changed();
      for await (const message of messages(answer.body)) {
        if (message.id) last = message.id;
        if (message.event === 'lost') state.lost += JSON.parse(message.data).lost ?? 0;
        else if (message.data) happened(received(message));
      }
    } catch { /* comes back below */ }
    state.live = 'lost';
    changed();
    await sleep(2000);
  }
}

function received({ id, data }) {
  const event = JSON.parse(data);
  return { ...event, id, at: Date.parse(event.time) };
}

// messages are those of a stream of server-sent events. EventSource could not send a token.
async function* messages(body) {
  let rest = '';
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const blocks = (rest + chunk).split('\n\n');
    rest = blocks.pop();
    for (const block of blocks) {
      const message = {};
      for (const line of block.split('\n')) {
        const colon = line.indexOf(': ');
        if (colon > 0) message[line.slice(0, colon)] = line.slice(colon + 2);
      }
      yield message;
    }
  }
}
