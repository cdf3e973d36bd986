package testkit

import (
	"sync"
	"testing"
	"testing/synctest"
)

// Virtual is a subtest in virtual time.
func Virtual(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// AtOnce does n things at the same time, and waits for all of them.
func AtOnce(n int, do func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}
