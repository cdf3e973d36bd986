// Package storetest is what every runner.Store has to pass: with the same beats it
// says what federation.Account says, and beats that come at once have an order.
//
// A store whose clock can be set is compared beat by beat. Of one that runs on its own,
// each reply says which time it was, and there must be an order of all beats in which an
// Account that is asked at these times answers the same: a history is linearizable or
// it is not, and github.com/anishathalye/porcupine finds out.
package storetest
