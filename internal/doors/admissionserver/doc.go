// Package admissionserver is the listener for gateways and programs that call models themselves, and
// ask llmgov before they do. [New] returns its handler; services register at it.
//
//	            ┌─ HTTP/2   ──► grpc.Server ──► tap: who calls? ──► RegisterService, ForTenants
//	split by ───┤
//	first bytes └─ HTTP/1.1 ──► http.Server ──► who calls?      ──► HandleForTenants
//
// # Rules
//
//  1. A caller presents the listener's token, and may then name any tenant; or the key of a tenant, and
//     then speaks for that one alone. If the listener has no token, whoever reaches it on a loopback
//     address without a key may name any tenant.
//  2. Services are for callers with the token, unless they are registered for tenants.
//  3. A connection of gRPC that has shown no token ends if more than a mebibyte has come of requests that are not whole (frames).
//  4. A panic ends one call; one in the governor ends the process.
//
// HTTP/2 is gRPC's alone. net/http could serve both protocols on one port without looking at connections, and hand
// gRPC to grpc.Server.ServeHTTP, but a call then costs more than twice as much (136 µs of CPU instead of 57).
package admissionserver
