// Package dialect keeps the differences between the protocols that callers and model servers speak, one value
// for each. docs/architecture.md lists the few that are elsewhere.
//
// A [Dialect] is a protocol of inference: its routes, the names that bound the length of its answers, its
// error objects and events, the headers in which its SDKs look for limits and request ids, and those in
// which its servers declare limits. A [Provider] is a kind of upstream: the dialects that it speaks, where
// its routes begin, and how the gateway authenticates there.
//
// To add a dialect, write a file with its value and append that to [All]. The events of its streams are a
// value in streaming/dialect.go. A kind of upstream with a key header of its own is a value in [Providers],
// named as in package tenants.
package dialect
