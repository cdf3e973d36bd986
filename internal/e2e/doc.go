// Package e2e tests the whole road of a request, gateway and model server and
// clients together: in virtual time over in-memory connections where time
// matters, on real sockets with real SDKs where bytes do.
package e2e
