package parts

import (
	"math/rand/v2"
	"testing"
)

// TestKept: however an account came to be, it need not be kept for longer than its beats said.
func TestKept(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 4))
	for range 200 {
		var a Account
		now := int64(1_700_000_000_000)
		expires := int64(0)
		for seq := range int64(40) {
			now += rng.Int64N(20_000)
			b := keptBeat(rng, now, seq)
			lasts, ends := b.Kept()
			expires = max(expires, now+lasts, ends)
			a.Beat(now, b)
			if until := a.Now + a.Forget(); until > expires {
				t.Fatalf("after %+v something counts for %d ms longer than the row is kept", b, until-expires)
			}
		}
	}
}

// keptBeat is the beat of one of three processes, which may leave, or know of an account before.
func keptBeat(rng *rand.Rand, now, seq int64) *Beat {
	b := &Beat{Instance: []string{"a", "b", "c"}[rng.IntN(3)], Seq: seq + 1, Left: rng.IntN(10) == 0}
	b.Epoch = rng.Int64N(2) * 1_700_000_000_000
	b.Known = rng.Int64N(3)
	for _, kind := range []Kind{Rolling, Period, Slots} {
		if rng.IntN(4) == 0 {
			continue
		}
		c := Claim{Name: string(kind), Kind: kind, Limit: 100, Used: rng.Int64N(50), Want: rng.Int64N(100), Part: rng.Int64N(60)}
		c.Sum = rng.Int64N(100)
		c.Most = rng.Int64N(100)
		if kind == Period {
			c.Ends = now + rng.Int64N(1_000_000) - 100_000
		} else {
			c.Tail = rng.Int64N(2) * rng.Int64N(200_000)
		}
		b.Claims = append(b.Claims, c)
	}
	return b
}
