// Package reserveserver serves reservations (package reserve) over a network: by gRPC, as
// governor/remote/admissionv1 describes it, and by HTTP and JSON, as openapi.json does.
//
//	Reserve   POST /v1/reservations               ask.go: what is asked, and for whom
//	Progress  POST /v1/reservations/ID/progress
//	Commit    POST /v1/reservations/ID/commit
//	Cancel    POST /v1/reservations/ID/cancel
//
// Over HTTP, a refusal is the answer that the gateway would give to the call itself: status, headers and body may
// be passed on as they are. Over gRPC it is a part of the answer to Reserve, and a status elsewhere.
package reserveserver
