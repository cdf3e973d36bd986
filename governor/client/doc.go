// Package client asks a governor for leases of calls to language models: one in this process (package
// embedded), or one that several programs share over a network (package remote). A program moves from the one to
// the other by opening another Client.
//
//	err := governed.Do(ctx, client.Request{Tenant: "acme", Model: "gpt-4o", InputTokens: 900, MaxOutput: 300},
//		func(ctx context.Context, l *client.Lease) (client.Usage, error) {
//			answer, err := ask(ctx)
//			return answer.Usage, err
//		})
//
// [Client.Do] is what most callers want. It waits for the call's turn, and ends its lease in whatever way
// the function ends. [Client.Reserve] is for calls that do not end where they begin, such as
// streams that are passed on; package govhttp has them for HTTP clients and servers.
//
// # Refusals
//
// A refused call's error is a [*Refusal], with the status, headers and time to come back that the gateway
// answers with; [ErrRefused] and its like are its classes. If the context ended while the call waited, the error is the context's.
//
//	if refusal, ok := errors.AsType[*client.Refusal](err); ok && refusal.Retryable() { … refusal.RetryAfter … }
//
// # What is charged
//
// The usage that the function returns. A call that reports none is charged by estimate, however it ended,
// because the model server has worked for it: by the tokens of its Progress, else by its prompt and the time that
// it ran. [ErrNotSent] and [ErrAnsweredError] say that there is nothing to charge. An [AnsweredStatus] says also
// whether the server is overloaded, for limits that move by that.
//
// # Tests
//
// Code that takes a Client is tested without a governor by a fake one of a few lines: see package doors.
//
// # Stability
//
// This package is stable, and so is Usage, wherever it is declared: what compiles and works with one release does so with the next. Package
// tokens, to which Request.InputSize leads, is not.
package client
