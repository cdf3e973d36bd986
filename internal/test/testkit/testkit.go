// Package testkit sets how much tests search, reports the servers they lack, starts servers on
// ports that it reserves, counts writes to connections, and checks errors in a line.
//
// A quick run (go test -short, make test) has to end within minutes on any machine, whatever else
// that machine does. It tries few seeds of each search, and leaves out tests that simulate hours
// or compare wall-clock times. A full run (make test-long) leaves out nothing.
package testkit

import (
	"fmt"
	"os"
	"testing"
)

// Rounds returns quick in a quick run, else full: a number of seeds, rounds or calls.
func Rounds(quick, full int) int {
	if testing.Short() {
		return quick
	}
	return full
}

// Long leaves t out of a quick run, because of why.
func Long(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip(why + ": make test-long")
	}
}

// skippedFile is the environment variable with the file in which skipped tests are listed, because
// go test itself shows them only with -v.
const skippedFile = "LLMGOV_TESTS_SKIPPED"

// Missing skips t, because a server is not installed. It fails t if the environment has CI=true.
func Missing(t testing.TB, server string, err error) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is needed: %v", server, err)
	}
	noteSkipped(t, server)
	t.Skipf("%s is needed: %v", server, err)
}

// Elsewhere skips t, because its server is installed by a make target of its own.
func Elsewhere(t testing.TB, server, target string) {
	t.Helper()
	noteSkipped(t, server)
	t.Skipf("%s is needed: make %s", server, target)
}

// noteSkipped lists a test that needs a server among those that are skipped.
func noteSkipped(t testing.TB, server string) {
	if path := os.Getenv(skippedFile); path != "" {
		appendLine(t, path, "a test that needs "+server)
	}
}

// appendLine appends a line to a file that other processes append to as well.
func appendLine(t testing.TB, path, line string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintln(file, line); err != nil {
		t.Fatal(err)
	}
}
