// Package implement hands package doors the constructors of package client, which users of that have no need to see. Their types cannot be
// named here.
package implement

// Client and Lease are set by package client.
var Client, Lease any
