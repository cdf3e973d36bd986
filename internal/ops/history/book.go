package history

import (
	"math"
	"time"
)

// MaxPairs bounds the pairs of tenant and pool of which a book keeps points.
const MaxPairs = 10_000

// Reading is the state of one pool at one moment.
type Reading struct {
	Pool string
	// Used and Limit are those of the pool's first limit. Limit is 0 without one.
	Used, Limit      int64
	Running, Waiting int64
	Tenants          []TenantReading
}

// TenantReading is the state of one tenant in a pool. Refused and Failed count its calls since the
// process began, or since its tier changed.
type TenantReading struct {
	Name               string
	Received, Entitled float64 // of the pool's last minute, as parts of the whole
	Refused, Failed    int64
}

// Book keeps the points of all pools.
type Book struct {
	last  int64 // tick of the last Record
	pools map[string]*pool
	rings int // of tenants
}

type pool struct {
	ring    ring[PoolPoint]
	tenants map[string]*tenant
	omitted int // tenants that did something in the last step, but have no ring
}

// tenant is a tenant in one pool. Its counts outlive its ring, because they are totals.
type tenant struct {
	points          *ring[tenantPoint] // nil if it did nothing for an hour
	active          int64              // tick in which it did something last
	refused, failed int64              // totals as of the last Record
}

// PoolPoint is one step of a pool. Received is what all its tenants received together; Refused and
// Failed count the calls of the step.
type PoolPoint struct {
	Known            bool // false if the step was not recorded
	Received         float32
	Running, Waiting int32
	Refused, Failed  uint32
	Used, Limit      int64
}

// tenantPoint is small, because there may be millions: parts are in ten-thousandths, and counts end
// at 65,535.
type tenantPoint struct{ received, entitled, refused, failed uint16 }

// NewBook returns an empty book.
func NewBook() *Book { return &Book{pools: map[string]*pool{}} }

// Record adds a point of every pool. Only the first Record of a step counts.
func (b *Book) Record(now time.Time, readings []Reading) {
	tick := tickOf(now)
	if tick < b.last {
		*b = *NewBook()
	}
	if tick == b.last {
		return
	}
	b.last = tick
	for i := range readings {
		b.recordPool(tick, &readings[i])
	}
	b.forget(tick)
}

func (b *Book) recordPool(tick int64, r *Reading) {
	p := b.pools[r.Pool]
	if p == nil {
		p = &pool{tenants: map[string]*tenant{}}
		b.pools[r.Pool] = p
	}
	p.omitted = 0
	point := PoolPoint{Known: true, Running: int32(r.Running), Waiting: int32(r.Waiting), Used: r.Used, Limit: r.Limit}
	for i := range r.Tenants {
		t := &r.Tenants[i]
		refused, failed := b.recordTenant(tick, p, t)
		point.Refused += uint32(refused)
		point.Failed += uint32(failed)
		point.Received += float32(t.Received)
	}
	p.ring.set(tick, point)
}

// recordTenant adds a point of a tenant that did something, and returns the calls of the step.
func (b *Book) recordTenant(tick int64, p *pool, r *TenantReading) (refused, failed int64) {
	t := p.tenants[r.Name]
	if t == nil {
		if r.Received == 0 && r.Entitled == 0 && r.Refused == 0 && r.Failed == 0 {
			return 0, 0
		}
		t = &tenant{}
		p.tenants[r.Name] = t
	}
	refused = since(t.refused, r.Refused)
	failed = since(t.failed, r.Failed)
	t.refused = r.Refused
	t.failed = r.Failed
	if r.Received == 0 && r.Entitled == 0 && refused == 0 && failed == 0 {
		return 0, 0
	}
	t.active = tick
	if t.points == nil {
		if b.rings >= MaxPairs {
			p.omitted++
			return refused, failed
		}
		t.points = &ring[tenantPoint]{}
		b.rings++
	}
	t.points.set(tick, tenantPoint{parts(r.Received), parts(r.Entitled), count(refused), count(failed)})
	return refused, failed
}

// since is the growth of a total. A total that is smaller was reset.
func since(before, total int64) int64 {
	if total < before {
		return total
	}
	return total - before
}

// forget drops the rings of tenants that did nothing for an hour, and pools without a point.
func (b *Book) forget(tick int64) {
	for name, p := range b.pools {
		for _, t := range p.tenants {
			if t.points != nil && t.active <= tick-Points {
				t.points = nil
				b.rings--
			}
		}
		if p.ring.last <= tick-Points {
			delete(b.pools, name)
		}
	}
}

const whole = 10_000 // of tenantPoint's parts

func parts(ratio float64) uint16 { return uint16(min(math.Round(ratio*whole), math.MaxUint16)) }

func ratio(parts uint16) float64 { return float64(parts) / whole }

func count(n int64) uint16 { return uint16(min(n, math.MaxUint16)) }
