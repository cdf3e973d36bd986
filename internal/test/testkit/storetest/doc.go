// Package storetest has the tests that every runner.Store has to pass: it answers the same
// beats as federation.Account does, and concurrent beats have an order.
//
// A store whose clock can be set is compared beat by beat. If its clock runs, each reply has
// its time, and there must be an order of all beats in which an Account answers the same at
// these times: github.com/anishathalye/porcupine decides whether the history is linearizable.
package storetest
