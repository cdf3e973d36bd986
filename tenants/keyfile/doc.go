// Package keyfile keeps API keys that are made and revoked while gateways run, in a file that any number of processes read
// and change.
//
//	keys:
//	  - {id: key_…, tenant: "acme", hash: "sha256:…", name: "ci", created: "2026-05-06T07:08:09Z"}
//	revoked:
//	  - {hash: "sha256:…", at: "2026-06-01T00:00:00Z"}
//
// [File] reads the file ([File.List]), adds a key ([File.Add]) and revokes one ([File.Revoke]). A change is made under a lock
// beside the file, and replaces the file as a whole, so whoever reads sees the old or the new. A file that cannot be read in
// full is never written over.
//
// [NewKey] makes a key. Only its [Hash] is kept.
//
// Which tenants there are, and which keys they have in policy files, is not known here: package tenants lays one over the
// other.
//
// # Stability
//
// Experimental: any release may change it.
package keyfile
