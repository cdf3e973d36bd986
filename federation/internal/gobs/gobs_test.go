package gobs

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// written is a value of every kind that accounts and beats have.
type written struct {
	Name  string
	Seq   int64
	Left  bool
	Rates [2]float64
	Inner *inner
	List  []inner
}

type inner struct {
	At    int64
	Bytes []byte
}

// other is a value of another type.
type other struct{ Seq int64 }

func encode(t testing.TB, value any) []byte {
	t.Helper()
	var out bytes.Buffer
	testkit.OK(t, gob.NewEncoder(&out).Encode(value))
	return out.Bytes()
}

// random is a value of which each field may be zero.
func random(rng *rand.Rand) written {
	w := written{Seq: rng.Int64N(3) - 1, Left: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		w.Name = fmt.Sprint("name ", rng.IntN(1000))
		w.Rates[rng.IntN(2)] = rng.Float64()
	}
	if rng.IntN(2) == 0 {
		w.Inner = &inner{At: rng.Int64()}
	}
	for range rng.IntN(3) {
		w.List = append(w.List, inner{At: rng.Int64N(2), Bytes: []byte{byte(rng.IntN(256))}})
	}
	return w
}

// TestDecode: whatever was read before, also by others at the same time, a value is read as by a decoder of its own. Damaged ones are errors
// where they are for that, and spoil nothing for those after them.
func TestDecode(t *testing.T) {
	var readers sync.WaitGroup
	for seed := range uint64(4) {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 6))
			for range 2000 {
				b := encode(t, random(rng))
				if rng.IntN(3) == 0 {
					b = encode(t, other{rng.Int64()})
				}
				if rng.IntN(4) == 0 {
					b[rng.IntN(len(b))] ^= byte(1 << rng.IntN(8))
				}
				if rng.IntN(8) == 0 {
					b = b[:rng.IntN(len(b))]
				}
				var got, want written
				err := Decode(b, &got)
				fresh := gob.NewDecoder(bytes.NewReader(b)).Decode(&want)
				if (err == nil) != (fresh == nil) || err == nil && !reflect.DeepEqual(got, want) {
					t.Errorf("%x is read as %+v, %v; want %+v, %v", b, got, err, want, fresh)
					return
				}
			}
		})
	}
	readers.Wait()
	if n := len(all.idle); n > mostDescriptions {
		t.Errorf("%d descriptions are known", n)
	}
}

// TestDecode_Again: to read a value of a type that is known takes little more than the value. A decoder of its own makes some 200 things for each.
func TestDecode_Again(t *testing.T) {
	b := encode(t, written{Name: "n", List: []inner{{At: 1}}})
	made := testkit.Allocs(t, 100, func() {
		var w written
		testkit.OK(t, Decode(b, &w))
	})
	if made > 10 {
		t.Errorf("%v things are made to read a value", made)
	}
}
