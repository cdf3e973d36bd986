package testkit

import (
	"fmt"
	"testing"
)

// Life is the life of a test binary: of what all of its tests share. Main ends it.
type Life struct {
	testing.TB
	cleanups []func()
}

// Main runs tests, then what was to be cleaned up, and returns the exit status.
func (l *Life) Main(m *testing.M) int {
	code := m.Run()
	for len(l.cleanups) > 0 {
		last := len(l.cleanups) - 1
		l.cleanups[last]()
		l.cleanups = l.cleanups[:last]
	}
	return code
}

// Cleanup has f called when the last test has ended.
func (l *Life) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

// Helper is needed as of a test.
func (l *Life) Helper() {}

// Fatal ends the test binary.
func (l *Life) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// Fatalf ends the test binary.
func (l *Life) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
