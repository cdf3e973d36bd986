// Package answers decides what of an upstream's answer may reach a caller.
//
// An upstream is another party. It may fail, be misconfigured or be taken over, and what it says
// goes to tenants, whose clients act on it: they follow redirects with their key, obey headers,
// and show bodies to people.
//
//   - Passes says which statuses are answers at all.
//   - Headers keeps the headers that a caller can use, from an allow-list, and bounds them.
//   - Secrets finds the key that the upstream was given in whatever comes back, and makes it
//     unreadable: in whole texts (Hide) and in bodies as they pass (Body).
//
// The package has no clock, no lock and no state beyond a body's. It does not know the gateway's
// routes, and decides nothing about retries or charges.
package answers
