package adaptive

import "time"

// reading is a Load of the servers as a gateway read it. One that follows tells it to the others, because the one that leads may be
// unable to read it.
type reading struct {
	// Seq numbers the readings of a gateway.
	Seq int64 `json:"q"`
	// Ago is how many microseconds before the note it was, and InFlight how many calls were in flight at all gateways.
	Ago      int64 `json:"a"`
	InFlight int64 `json:"n"`
	Load

	at time.Time
}

// credible reports whether a reading may be true.
func (r *reading) credible() bool {
	const most = 1 << 40
	counts := r.InFlight > 0 && r.Running >= 0 && r.Waiting >= 0 && r.Full >= 0 && r.MaxRunning >= 0
	return counts && max(r.InFlight, r.Running, r.Waiting, r.MaxRunning) <= most && r.Ago >= 0 && r.Ago <= loadAge.Microseconds()
}

// fresh reports whether a reading still counts.
func (r *reading) fresh(now time.Time) bool { return !r.at.IsZero() && now.Sub(r.at) <= loadAge }

// tellRead is the last reading as a note has it; nil if it does not count any more.
func (f *Fleet) tellRead(now time.Time) *reading {
	if f.leads || !f.read.fresh(now) {
		return nil
	}
	told := f.read
	told.Ago = now.Sub(told.at).Microseconds()
	return &told
}

// takeRead has the limiter go by what the eldest other gateway has read of the servers, each reading once, while this one reads nothing.
func (f *Fleet) takeRead(now time.Time, others []*note) {
	if f.read.fresh(now) {
		return
	}
	for _, o := range others {
		if o.Read == nil || !o.Read.credible() || !o.Read.fresh(now) {
			continue
		}
		if o.Read.Seq > f.known[o.ID].reads {
			f.limiter.Loaded(o.Read.at, o.Read.Load, o.Read.InFlight)
		}
		return
	}
}

// lastRead is the number of the last reading that is known of a gateway.
func (n *note) lastRead(before int64) int64 {
	if n.Read == nil {
		return before
	}
	return max(before, n.Read.Seq)
}
