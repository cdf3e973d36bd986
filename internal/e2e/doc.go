// Package e2e holds the tests of a request's whole way, from the client through the gateway to the
// model server, in a folder for each subject. Tests of time run in virtual time (package harness),
// tests of bytes and of SDKs on real sockets (package sockets).
package e2e
