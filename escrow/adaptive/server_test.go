package adaptive

import (
	"math"
	"testing"
	"time"
)

func TestLoad_RoomIn(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name     string
		load     Load
		inFlight int64
		want     float64
	}{
		{"nothing waits", Load{Running: 30}, 30, inf},
		{"a call that has just come", Load{Running: 128, Waiting: 2}, 130, inf},
		{"some wait", Load{Running: 30, Waiting: 10}, 40, 30},
		{"others use the server, too", Load{Running: 60, Waiting: 20}, 40, 30},
		{"all wait", Load{Waiting: 10}, 10, 0},
		{"memory is half full", Load{Running: 30, Full: 0.5}, 30, 60},
		{"memory is too full", Load{Running: 30, Full: 1.25}, 30, 24},
		{"both", Load{Running: 30, Waiting: 10, Full: 1.25}, 40, 30},
		{"it tells how many it runs", Load{Running: 30, MaxRunning: 32}, 30, 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.load.roomIn(c.inFlight); got != c.want {
				t.Errorf("there is room for %v, want %v", got, c.want)
			}
		})
	}
}

// loaded has a limiter of some limit hear loads, one a second.
func loaded(l *Limiter, at time.Time, inFlight int64, loads ...Load) (now time.Time) {
	for _, load := range loads {
		at = at.Add(time.Second)
		l.Loaded(at, load, inFlight)
	}
	return at
}

func limiterAt(limit int64) *Limiter {
	l := New(Config{Law: Gradient, Min: 4, Max: 256})
	l.Begin(limit)
	return l
}

func TestLoaded_Falls(t *testing.T) {
	full := Load{Running: 30, Waiting: 10}
	free := Load{Running: 40}
	hopeless := Load{Running: 1, Waiting: 39}
	for _, c := range []struct {
		name     string
		inFlight int64
		loads    []Load
		want     int64
	}{
		{"lasting", 40, []Load{full, full, full}, 30},
		{"not lasting", 40, []Load{full, full, free, full, full}, 40},
		{"by the mildest", 40, []Load{full, {Running: 36, Waiting: 4}, full}, 36},
		{"by at most a half", 40, []Load{hopeless, hopeless, hopeless}, 20},
		{"not while more run than it allows", 48, []Load{full, full, full, full}, 40},
		{"few run here", 10, []Load{full, full, full}, 20},
		{"nothing runs here", 0, []Load{full, full, full}, 40},
		{"memory", 40, []Load{{Running: 40, Full: 1.05}, {Running: 40, Full: 1.06}, {Running: 40, Full: 1.07}}, 38},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := limiterAt(40)
			loaded(l, start, c.inFlight, c.loads...)
			if got := l.Limit(); got != c.want {
				t.Errorf("the limit of 40 is %d, want %d", got, c.want)
			}
		})
	}
}

// Room that was hardly too little once does not keep the limit where it is while far too little follows.
func TestLoaded_FallsByTheLatest(t *testing.T) {
	l := limiterAt(40)
	l.set(39.6)
	full := Load{Running: 30, Waiting: 10}
	loaded(l, start, 40, Load{Running: 40, Full: 1.001}, full, full, full, full, full)
	if got := l.Limit(); got != 30 {
		t.Errorf("the limit is %d, want 30", got)
	}
}

// The limit stays within its bounds, whatever servers say.
func TestLoaded_Bounds(t *testing.T) {
	l := limiterAt(5)
	at := start
	for range 20 {
		at = loaded(l, at, l.Limit(), Load{Waiting: 1 << 40, Full: 1e9})
	}
	if got := l.Limit(); got != 4 {
		t.Errorf("the limit is %d, not its least", got)
	}
}

// The limit grows as far as the servers have room, and on where these are heard of no more: who cannot be asked blocks nobody.
func TestLoaded_HoldsGrowth(t *testing.T) {
	l := limiterAt(40)
	l.rested = start
	at := loaded(l, start, 40, Load{Running: 40, Full: 0.8})
	for range 10 {
		l.rise(at)
	}
	if got := l.Limit(); got != 50 {
		t.Errorf("with room for 50 the limit grows to %d", got)
	}
	at = loaded(l, at, 50, Load{Running: 50, Full: 1.01})
	l.rise(at)
	if got := l.Limit(); got != 50 {
		t.Errorf("with no more room the limit grows to %d", got)
	}
	l.rise(at.Add(loadAge + time.Second))
	if got := l.Limit(); got <= 50 {
		t.Errorf("when the servers are heard of no more the limit is %d still", got)
	}
}

// Gateways that follow another one's limit go by that, whatever servers tell them: it reads the same ones.
func TestLoaded_FollowersGoByTheLeader(t *testing.T) {
	f := NewFleet(Config{Law: Gradient, Min: 4, Max: 256})
	f.follows = true
	f.limit = 40
	at := start
	for range 5 {
		at = at.Add(time.Second)
		f.Loaded(at, Load{Running: 30, Waiting: 10}, 40)
	}
	if got := f.Limit(); got != 40 {
		t.Errorf("the limit is %d, not the leader's", got)
	}
	if got := f.Room(at); got != 30 {
		t.Errorf("there is room for %d, want 30", got)
	}
}
