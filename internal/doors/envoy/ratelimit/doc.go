// Package ratelimit is the door for proxies that ask a rate limit service: Envoy's ShouldRateLimit v3. It turns
// descriptors into reservations.
//
//	request:  tenant, model, pool ──► reserve.Book.Reserve ──► OK, and a request header with the lease's id
//	                                                       └─► OVER_LIMIT, with the gateway's headers and body
//	end of the stream, by apply_on_stream_done: that id, counts ──► Commit
//	without leases: a total ──► charged at once
//
// # Descriptors
//
// Entries say who asks and for which model, by names of the policy's choice ([Names]). The other two have fixed names:
//
//	llmgov_lease  the id that the request header brought
//	llmgov_count  what the descriptor's hits are: input, output or total tokens, or the status of the answer
//
// The entries of all descriptors of a request are taken together. An entry with two values is an error, because nobody knows which counts.
//
// # Rules
//
//  1. A call whose end is not heard ends as broken off after ten minutes, or as soon as its tokens are known.
//  2. A total without a lease is what was used, and is charged even if the limit has no room: such a proxy limits
//     tokens alone, and by what earlier calls took. Without hits it is a question, and takes nothing.
//  3. A call waits for its turn as long as the proxy does, less a fifth.
package ratelimit
