//go:build race

package testkit

// Race reports that the race detector runs. It allocates by itself, lets a sync.Pool forget some of what it is given, and makes
// everything ten times as slow.
const Race = true
