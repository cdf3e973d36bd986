// Package tenants turns one config file and the policy files beside it into one immutable [Snapshot]. Most callers want [Load] or
// [Watch], and [Build] for a [Config] and a list of [Tenant] in code. A program that governs its own calls needs none of these: see Policy in
// package embedded.
//
// # The files
//
//	llmgov.yaml ──────────► Config: listeners, upstreams, pools, prices, timeouts
//	  │ policies: [tenants/*.yaml]
//	  └► tenants/acme.yaml ─► tiers (templates) and tenants (who, which keys, which models, which limits)
//
// A tier is a template. A tenant starts as a copy of its tier and then replaces the keys that it has itself. No limit of
// theirs can be 0, which would read as a limit and be none; only a pool's 0 is an axis that is off. Tiers and tenants may be spread over any number of policy files and
// refer to each other across them; a name may be defined once.
//
// With `group: true` a tier is a node as well: its tenants have the tier's weight together ([Tenant.GroupWeight]) and
// share it by `tenant_weight`, which [Tenant.Weight] then is. All other keys stay a template, so each tenant of a group
// has the limits, the floor and the budgets of the tier for itself. One part in the pool belongs to one place: a member
// cannot say `weight`, and `tenant_weight` outside of a group is a problem.
//
// # Teams
//
// A tenant may have teams, and these teams of their own. [Snapshot.Tenants] holds them flat: a team's name is the path
// to it ("acme/search"), [Tenant.Parent] leads up, and a parent stands before its teams. Three rules give a team's values:
//
//   - limits, budgets and floors are its own. Its parents' apply to it as well, by Parent, so they are not copied;
//   - other keys that it leaves out it has from its parent;
//   - it may narrow its parent's rights, never widen them: the grant is its own models and all its parents'
//     ([Tenant.Bounds]), routes are a part of the parent's, output is cut at the smallest, and background and shadow
//     hold for all below.
//
// In a pool's tree a tenant with teams is an inner node, and its own keys are a leaf of weight 1 beside them.
//
// # Layers
//
//	defaults ◄─ file ◄─ environment (LLMGOV_…) ◄─ flags          rightmost wins
//
// Only the settings outside of pools, upstreams and prices have layers above the file: `admin.listen` is LLMGOV_ADMIN_LISTEN
// and --admin-listen. A name that is no key is ignored, because a cluster injects names such as
// LLMGOV_SERVICE_HOST by itself. An empty variable or flag counts as not given. A value that a higher layer hides
// must still be right.
//
// # Two books
//
// Each load keeps two books. The tree of a file knows where everything is written; the walk over it (internal/lib/strictyaml)
// reads each value, and alone judges whether it is valid, because whoever has to fix a file wants
// file:line:col. koanf knows which layer wins: it is handed values that are already typed, merges them and decodes
// the result into [Config]. So koanf never sees text, and there is no second, weaker set of rules. Where a value
// came from stays known after the merge: a check that fails on the merged settings names the line, the variable or
// the flag that set it.
//
// # Strictness
//
// A file that is not understood in full is refused in full, with every problem at once, sorted by place:
//
//   - unknown keys are problems, never ignored;
//   - a key written twice, an anchor, an alias, a merge key, an explicit tag, a second document, a byte order mark
//     are problems: each makes a file mean something else than it seems to;
//   - a number is written as a number (`rpm: 60`, not `rpm: "60"`), a duration with its unit, an amount within its
//     range; a key with nothing behind it is a problem, not a zero;
//   - names must lead somewhere: tiers, upstreams, pools, a tenant's model patterns, the globs of `policies`;
//   - far more than anybody needs is refused before it takes memory (bounds.go);
//   - promises must be possible: the floors of all that may use a pool fit into its tpm less headroom, those of teams into
//     their parent's, and a budget in money meets no model without a price.
//
// A value that was refused is remembered ([report.refused]), so that the value put in its stead starts no second
// complaint.
//
// An api_key, a token and the store may be file:NAME, and are what is in that file, which is followed like the config.
// `${VAR}` and `${VAR:-default}` are expanded in the config file alone, inside scalar values and after parsing, so a value
// can never grow into structure; `$$` is a dollar sign. Policy files and key files are read as written, and `${` in them
// is a problem: their authors must not read the gateway's environment. Messages show a value as it is written, never what
// a variable holds. Keys, the API keys of upstreams, the admin token and the store never appear in a message.
//
// # Models
//
// A model name belongs to one pool. A pool lists exact names and globs, in which `*` stands for any run of
// characters and nothing else is special. The most specific entry wins: the exact name, then the glob with more
// literal characters. An alias is an exact name that the upstream is sent another for ([Snapshot.RealModel]); grants,
// routes and prices know it by its own. Where that leaves a tie between two pools the files are refused. See models.go. `prices` has the
// same form and the same rule, so its order says nothing.
//
// # Money
//
// Money is whole millionths of a US dollar, read from the digits of the file: 2.50 is 2_500_000, without a float in
// between. A price is that per million tokens.
//
// # The snapshot
//
// A [Snapshot] is built once and never changes, so a request loads it once and passes it down; whoever reloads
// swaps the pointer. What it hands out (*Tenant, *Pool, *Config) is shared and must only be read. Lookups on the
// request path allocate nothing.
//
// # Keys made at run time
//
// A [KeyFile] beside the config file holds keys that were made, and hashes of keys that were revoked, while gateways
// run. It is one more file of a load: a policy has its keys, then those of the key file open what they are for, then
// what is revoked opens nothing, wherever it is from. What is amiss between it and the policy (a tenant that is gone) is no
// problem but a note, since the two change apart. It is not in [Snapshot.Hash].
//
// # Changes
//
// A [Watcher] follows the files and delivers a new snapshot, or what is wrong with them, for as long as its context
// lives. Content decides what is a change; see watch.go. What has not changed is not parsed again and, where the file
// system can be trusted to tell, not even read; see seen.go.
//
// This package knows nothing of admission, and makes no network call.
//
// # Stability
//
// Experimental: any release may change it.
package tenants
