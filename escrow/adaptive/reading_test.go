package adaptive

import (
	"testing"
	"time"
)

// TestFleet_TakesReadings: the gateway that leads and reads nothing itself goes by what another one has read of the servers, each reading
// once, as long as that is fresh, and not by one that cannot be true.
func TestFleet_TakesReadings(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		what string
		read reading
		want int64
	}{
		{"there is room for 40", reading{Seq: 1, InFlight: 80, Load: Load{Running: 80, Full: 2}}, 40},
		{"too old", reading{Seq: 1, Ago: 5_000_000, InFlight: 80, Load: Load{Running: 80, Full: 2}}, 0},
		{"of a time to come", reading{Seq: 1, Ago: -1, InFlight: 80, Load: Load{Running: 80, Full: 2}}, 0},
		{"of no call", reading{Seq: 1, Load: Load{Full: 2}}, 0},
		{"negative", reading{Seq: 1, InFlight: 80, Load: Load{Running: -80, Full: 2}}, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
			c.read.at = at.Add(-time.Duration(c.read.Ago) * time.Microsecond)
			o := &note{member: member{ID: "o"}, Read: &c.read}
			for range 5 {
				f.takeIn(at, []*note{o})
			}
			if got := f.Room(at); got != c.want {
				t.Errorf("there is room for %d, want %d", got, c.want)
			}
			if n := f.limiter.servers.lacking; n > 1 {
				t.Errorf("a reading counted %d times", n)
			}
		})
	}
}
