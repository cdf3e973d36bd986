package escrow

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// steps and seed say how far TestMachineLongRun goes, and where it begins:
//
//	go test ./escrow -run TestMachineLongRun -steps 10000000 -seed 7 -timeout 2h
var (
	steps = flag.Int("steps", 200_000, "how many steps the random machine takes")
	seed  = flag.Uint64("seed", 1, "where the random machine begins")
)

// pcgDraw draws from a fast generator.
type pcgDraw struct{ *rand.Rand }

func (d pcgDraw) n(_ string, lo, hi int64) int64 { return lo + d.Int64N(hi-lo+1) }

// byteDraw draws from a fuzzer's bytes, and zeros once these are spent.
type byteDraw struct{ left []byte }

func (d *byteDraw) n(_ string, lo, hi int64) int64 {
	v := uint64(0)
	span := uint64(hi - lo)
	for s := span; s > 0; s >>= 8 {
		v <<= 8
		if len(d.left) > 0 {
			v |= uint64(d.left[0])
			d.left = d.left[1:]
		}
	}
	return lo + int64(v%(span+1))
}

// The invariants that a state can show, over many pools and long runs of verbs:
// what rapid cannot reach in its short ones. A failure names the seed of its pool.
func TestMachineLongRun(t *testing.T) {
	const life = 2000 // steps of one pool
	left := testkit.Rounds(*steps/10, *steps)
	for from := *seed; left > 0; from++ {
		d := pcgDraw{rand.New(rand.NewPCG(from, 0))}
		m := newMachine(d, func(format string, args ...any) {
			t.Helper()
			t.Fatalf("-seed %d: "+format, append([]any{from}, args...)...)
		})
		m.every = 16
		for range min(life, left) {
			m.step(d)
		}
		m.end()
		left -= life
	}
}

func FuzzMachine(f *testing.F) {
	for s := range uint64(4) {
		r := rand.New(rand.NewPCG(s, 0))
		b := make([]byte, 600)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &byteDraw{b}
		m := newMachine(d, t.Fatalf)
		for len(d.left) > 0 {
			m.step(d)
		}
		m.end()
	})
}
