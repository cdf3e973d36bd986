//go:build !race

package testkit

// Race reports that the race detector does not run.
const Race = false
