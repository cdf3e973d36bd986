// Package doors is one suite of cases that is run through every door of the governor: the proxy, programs with
// the governor inside, gateways that ask it. What holds by one door holds by all, or the door says why not.
//
//	case ─► Site: a policy, a model server that counts, llmgov as a process
//	     ─► Door.Open ─► Post, by which a caller of that door makes a call
//	     ─► what the model server produced, and what the governor charged
//
// A door is a value in a file of its own, listed in doors_test.go. The table of doors and cases in
// docs/integrations.md is made of them: go test ./internal/test/e2e/doors -update writes it.
package doors
