// Package e2e holds the tests of a request's whole way, from the client through the gateway to the
// model server, in a folder for each subject. Tests of time run in virtual time (package harness),
// tests of bytes and of SDKs on real sockets (package sockets). The folders process, fleet and
// dashboards start real processes, and docs holds the pages to the program.
package e2e
