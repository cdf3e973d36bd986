// Package admissionv1 is the protocol by which gateways and programs ask llmgov for reservations, over gRPC.
// admission.proto describes it, and the Go code is generated from that: go test ./governor/remote/admissionv1 -update.
//
// Programs in Go need not use it: package governor/remote does.
//
// # Stability
//
// Stable: what compiles and works with one release does so with the next.
package admissionv1
