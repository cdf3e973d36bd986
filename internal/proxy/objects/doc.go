// Package objects remembers who made which object at an upstream.
//
// # Problem
//
// All tenants of a gateway share one account at a provider, and the provider shows
// every file, batch and stored response of an account to whoever has its key. Who
// may see what is therefore for the gateway to know, and to know after a restart.
//
// # Picture
//
//	Own     ──► objects.db ──► memory      files, batches, …: kept before anybody is told;
//	                                       in memory what does not fade
//	OwnSoon ──► memory ──► objects.db      responses: within 100 ms, in groups
//	Resize  ──► memory ──► objects.db      how much of a prompt it would be, once that is known
//	Owner   ◄── memory, else objects.db
//	Owe     ──► objects.db ──► memory      what is charged when it is done, by Collect
//
// # Rules
//
// What is not known belongs to nobody, and nobody sees it: every loss errs on that
// side. Ids are kept by upstream, for two of them may use the same. An owner is the
// name of a tenant or of a team, which is a path, so a parent sees what its teams
// made, and a tenant that is deleted and comes back finds what it had.
//
// What a provider deletes by itself after a month at most (responses, their items and
// containers, uploads), or what is of no use once it is done (a vector store's file
// batch), is forgotten a day later. All else is kept until it is deleted.
//
// What goes on by itself after its call has ended is charged when it is first seen done,
// and once: a debt is recorded before the client knows of the object, and whoever
// collects it first takes it away from all others. A crash between the charge and its
// record on disk may charge twice; nothing else does.
//
// Without a folder all is in memory, and of what fades only the newest million.
//
// # What it is not
//
// It holds no content, and knows nothing of policies or HTTP. The file belongs to
// one process at a time, by its lock.
package objects
