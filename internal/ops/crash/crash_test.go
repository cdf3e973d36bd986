package crash

import (
	"testing"
	"testing/synctest"
	"time"
)

// What is run before the end is waited for, but not for long.
func TestFinish(t *testing.T) {
	defer last.Store(nil)
	Finish() // has nothing to run
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ takes, want time.Duration }{{time.Second / 2, time.Second / 2}, {time.Hour, time.Second}} {
			Finally(func() { time.Sleep(c.takes) })
			began := time.Now()
			Finish()
			if took := time.Since(began); took != c.want {
				t.Errorf("of what takes %s it waits for %s, want %s", c.takes, took, c.want)
			}
			time.Sleep(c.takes) // until it has ended
		}
	})
}
