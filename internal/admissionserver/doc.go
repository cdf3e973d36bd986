// Package admissionserver is the listener for gateways and programs that call models themselves, and
// ask llmgov before they do. [New] returns its handler; services register at it.
//
//	HTTP/2, application/grpc ──► caller ──► grpc.Server ──► Register, RegisterForTenants
//	HTTP/1.1 or HTTP/2, JSON ──► caller ──► ServeMux    ──► HandleForTenants
//
// # Rules
//
//  1. A caller presents the listener's token, and may then name any tenant; or the key of a tenant, and
//     then speaks for that one alone. If the listener has no token, whoever reaches it on a loopback
//     address without a key may name any tenant.
//  2. Services are for callers with the token, unless they are registered for tenants.
//  3. A panic ends one call; one in the governor ends the process.
//
// gRPC is served by net/http's HTTP/2, because one port then serves both: no connection is sniffed, and
// connections are bounded and authenticated in one place.
package admissionserver
