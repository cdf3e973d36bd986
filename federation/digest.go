package federation

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// digest is a memory's account in short. Each grant comes with one (Reply.Digest); its node gives it to the memory that
// follows a loss (Copy.Digest), which restores an account from it.
type digest struct {
	// Epoch is the memory's, and Turn how many beats it had booked by Now.
	Epoch, Turn, Now int64
	// Limits are the highest that any node knows.
	Limits Amounts
	// Held, Refundable and May are sums over all members.
	Held, Refundable, May Amounts
	// Booked is Account.Booked together with Account.Gone.
	Booked book
}

// digest is the account in short.
func (a *Account) digest() digest {
	d := digest{Epoch: a.Epoch, Turn: a.Turn, Now: a.Now, Limits: a.highestLimits(), Booked: slices.Clone(a.Booked)}
	for _, x := range a.Gone {
		d.Booked.add(x.Slot, x.Used)
	}
	for _, m := range a.Members {
		d.Held = plus(d.Held, m.Held)
		d.Refundable = plus(d.Refundable, m.Refundable)
		d.May = plus(d.May, m.may(a.Rules))
	}
	return d
}

// highestLimits are the highest that any member knows, each less its reserve.
func (a *Account) highestLimits() (limits Amounts) {
	for _, m := range a.Members {
		for k, limit := range m.Limits {
			limits[k] = max(limits[k], limit-m.Reserve[k], min(limit, 1))
		}
	}
	return limits
}

// may is the most that a node may use of its known envelopes.
func (m *Member) may(r Rules) (most Amounts) {
	for k := range most {
		most[k] = m.bound(r, k, r.ttl())
	}
	return most
}

// compare orders digests by when they were made.
func (d *digest) compare(o *digest) int {
	return cmp.Or(cmp.Compare(d.Epoch, o.Epoch), cmp.Compare(d.Turn, o.Turn))
}

// digestVersion is the first byte of a digest. One of another version is as good as none.
const digestVersion = 1

// numbers are everything in a digest but the book, in the order in which they are written down.
func (d *digest) numbers() []*int64 {
	list := []*int64{&d.Epoch, &d.Turn, &d.Now}
	for k := range axes {
		list = append(list, &d.Limits[k], &d.Held[k], &d.Refundable[k], &d.May[k])
	}
	return list
}

func (d *digest) encode() []byte {
	out := make([]byte, 0, 128+8*len(d.Booked))
	out = append(out, digestVersion)
	for _, x := range d.numbers() {
		out = binary.AppendVarint(out, *x)
	}
	return d.Booked.append(out)
}

const (
	// maxDigest bounds a digest's length: a slot takes about 16 bytes, and there are some hundreds.
	maxDigest = 64 << 10
	// maxDigested bounds each number of a digest, so that neither sums of them overflow nor stores whose only numbers are
	// floats lose a unit.
	maxDigested = int64(1) << 52
)

// decodeDigest undoes encode. It reports whether in is a digest of this version that a memory can have made.
func decodeDigest(in []byte, r Rules) (*digest, bool) {
	if len(in) == 0 || len(in) > maxDigest || in[0] != digestVersion {
		return nil, false
	}
	in = in[1:]
	d := &digest{}
	for _, x := range d.numbers() {
		v, n := binary.Varint(in)
		if n <= 0 {
			return nil, false
		}
		*x = v
		in = in[n:]
	}
	return d, d.Booked.GobDecode(in) == nil && d.possible(r)
}

// possible reports whether a memory can have made a digest: nothing is negative or too large, and slots are in order, and
// within the time in which anything may be booked.
func (d *digest) possible(r Rules) bool {
	for _, x := range d.numbers() {
		if *x < 0 || *x > maxDigested {
			return false
		}
	}
	now := floorDiv(d.Now, r.slot())
	next := now - r.Slots
	for _, x := range d.Booked {
		if x.Slot < next || x.Slot > now+r.ahead() || x.Used != within(0, x.Used, maxDigested) {
			return false
		}
		next = x.Slot + 1
	}
	return true
}
