// Package stored governs the objects that upstreams keep: responses, files, batches, fine-tuning jobs, vector
// stores. An account at a provider has those of all tenants, so each object is recorded with its owner
// (package objects), answers are read for further ones that they show, and lists are filtered.
//
//   - [Offspring] lists the objects that an answer shows, and [Keep] and [Recorder] record their owner.
//     [WatchAnswer] and [WatchEvents] show a body to be recorded before the caller can see it.
//   - [Page.Read] reads an account's list for the part that a tenant may see.
//   - [File.Check] checks a file of calls for a batch, and [Batch] sums up the most that these may take.
//     [Holds] are the leases of batches until they are seen done.
//   - [ReadEnd] finds out whether an answer shows that a background response or a batch is done, and
//     [Collect] has it charged.
//
// Everything that depends on the call comes as an argument, or through an interface of one or a few methods.
package stored
