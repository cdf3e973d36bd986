// Asks the admin API. Where it wants a token, the user is asked for it, once a session.

import { state } from './state.js';

const base = new URL('../', document.baseURI);
const kept = 'llmgov-admin-token';

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let needed = null; // whether the gateway wants a token

// request is a fetch with the token; it throws what went wrong as a sentence.
export async function request(path, options = {}) {
  needed ??= fetch(new URL('console/token', base), { cache: 'no-store' }).then((answer) => answer.json());
  if (!sessionStorage.getItem(kept) && await needed.catch(() => { needed = null; })) await askToken(null);
  for (;;) {
    const token = sessionStorage.getItem(kept);
    const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
    const answer = await fetch(new URL(path, base), { ...options, headers, cache: 'no-store', redirect: 'error' });
    if (answer.ok) return answer;
    if (answer.status === 401) {
      await askToken(token);
      continue;
    }
    throw new ApiError(answer.status, await why(answer));
  }
}

export const get = async (path) => (await request(path)).json();

async function why(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).error.message;
  } catch {
    return text.trim() || `the gateway answered ${answer.status}`;
  }
}

let asking = null;

// askToken asks once, however many requests want a token; refused is the one that was sent.
function askToken(refused) {
  if (refused !== sessionStorage.getItem(kept)) return Promise.resolve(); // another has been given since
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById('ask');
    const input = document.getElementById('ask-token');
    if (refused) document.getElementById('ask-why').textContent = 'The gateway did not accept that token.';
    input.value = '';
    dialog.showModal();
    dialog.onclose = () => {
      asking = null;
      sessionStorage.setItem(kept, input.value.trim());
      state.me = null;
      input.value = '';
      resolve();
    };
  });
  return asking;
}
