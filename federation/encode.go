package federation

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/llmgov/llmgov/federation/internal/envelope"
)

// encoding is the version of how accounts are written down.
const encoding = 3

// ErrEncoding says that an account was written by another release, or by other rules.
var ErrEncoding = envelope.ErrOther

// ErrDamaged says that an account cannot be read, or not be used.
var ErrDamaged = envelope.ErrDamaged

// Encode writes an account down, for stores that keep it as it is. (In JSON the largest
// accounts take six times as long.)
func (a *Account) Encode() ([]byte, error) { return envelope.Seal(encoding, a) }

// Decode undoes Encode. The rules have to be those that it was kept by.
func Decode(b []byte, r Rules) (*Account, error) {
	a := &Account{}
	if err := envelope.Open(encoding, b, a); err != nil {
		return nil, err
	}
	if a.Rules != r {
		return nil, fmt.Errorf("%w (rules %+v, not %+v)", ErrEncoding, a.Rules, r)
	}
	if a.Members == nil {
		a.Members = map[string]*Member{}
	}
	return a, nil
}

// Most of an account are books and curves, which gob takes many times as long for.

var errShort = errors.New("it ends too early")

// GobEncode implements gob.GobEncoder: slots as how far they are from the one before, and the
// usage in each.
func (b book) GobEncode() ([]byte, error) { return b.append(make([]byte, 0, 8*len(b))), nil }

func (b book) append(out []byte) []byte {
	before := int64(0)
	for _, x := range b {
		out = binary.AppendVarint(out, x.Slot-before)
		for _, used := range x.Used {
			out = binary.AppendVarint(out, used)
		}
		before = x.Slot
	}
	return out
}

// GobDecode implements gob.GobDecoder.
func (b *book) GobDecode(in []byte) error {
	ok := true
	next := func() int64 {
		v, n := binary.Varint(in)
		in = in[max(n, 0):]
		ok = ok && n > 0
		return v
	}
	*b = (*b)[:0]
	for before := int64(0); ok && len(in) > 0; {
		x := Booked{Slot: before + next()}
		for k := range x.Used {
			x.Used[k] = next()
		}
		*b = append(*b, x)
		before = x.Slot
	}
	if !ok {
		return errShort
	}
	return nil
}

const pointSize = 8 * (1 + axes)

// GobEncode implements gob.GobEncoder.
func (c curve) GobEncode() ([]byte, error) {
	out := make([]byte, 0, len(c)*pointSize)
	for _, p := range c {
		for _, f := range append([]float64{p.Level}, p.Use[:]...) {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(f))
		}
	}
	return out, nil
}

// GobDecode implements gob.GobDecoder.
func (c *curve) GobDecode(in []byte) error {
	if len(in)%pointSize != 0 {
		return errShort
	}
	float := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(in[8*i:])) }
	*c = make(curve, len(in)/pointSize)
	for i := range *c {
		p := &(*c)[i]
		at := i * (1 + axes)
		p.Level = float(at)
		for k := range p.Use {
			p.Use[k] = float(at + 1 + k)
		}
	}
	return nil
}
