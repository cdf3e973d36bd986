package testkit

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TB is a test of package testing, or of rapid.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Must returns a value, or ends the test at the error that there is instead: Must(os.ReadFile(name))(t).
func Must[T any](value T, err error) func(t TB) T {
	return func(t TB) T {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return value
	}
}

// OK ends the test at an error. Without one it takes no time: searches check each of a million steps.
func OK(t TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Same wants two values to be equal, and shows what differs. what says which values they are.
func Same(t testing.TB, want, got any, what ...any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s(-want +got):\n%s", fmt.Sprintln(what...), diff)
	}
}
