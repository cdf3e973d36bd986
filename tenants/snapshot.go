package tenants

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/tenants/keyfile"
)

// Snapshot is everything the files say, checked as a whole and frozen. It is safe for any number of readers; the values that
// it hands out are shared and must not be written to. A reload makes another one.
type Snapshot struct {
	cfg     Config
	tenants []Tenant
	byKey   keyTable
	byName  map[string]int
	routes  routes
	prices  pricing
	zone    *time.Location
	origins origins
	scopes  [][]string      // the patterns that each tenant may use
	exposed []string        // secrets that others may read, as a person reads it
	unwise  []string        // settings of upstreams and the proxy, as a person reads it
	named   map[string]bool // models that tenants name
	hash    string
	full    [sha256.Size]byte
	sums    []sum // of the tenants
	runtime runtimeKeys
	laid    laid            // the overrides
	aside   []RuntimeTenant // see Aside
	loaded  *handover       // nil in a snapshot that was made in code
}

// handover is the loader of a snapshot, until somebody takes it, who then loads only what has changed.
type handover struct{ loader atomic.Pointer[loader] }

// newSnapshot freezes parts that were found to fit. It owns them from here on.
func newSnapshot(cfg Config, list []Tenant, keys keyTable, sums []*sum) *Snapshot {
	other := map[string]bool{} // upstreams
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		u.Kind = cmp.Or(u.Kind, OpenAI)
		u.BaseURL = plainBase(u.BaseURL)
		u.Engine.fill(u.BaseURL)
		other[u.Name] = hasOtherTiers(u.BaseURL)
	}
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		p.OtherTiers = slices.ContainsFunc(p.Upstreams, func(u PoolUpstream) bool { return other[u.Name] })
	}
	slices.SortFunc(cfg.Prices, func(a, b ModelPrice) int { return strings.Compare(a.Model, b.Model) })
	s := &Snapshot{
		cfg: cfg, tenants: list,
		byKey: keys, byName: make(map[string]int, len(list)),
		routes: newRoutes(cfg.Pools), prices: newPricing(&cfg), zone: location(cfg.Timezone),
		named: modelsNamed(list),
	}
	for i := range list {
		s.byName[list[i].Name] = i
	}
	s.hash, s.full, s.sums = digests(cfg, list, sums)
	s.runtime.policy = s.byKey
	s.runtime.full = s.full
	return s
}

// location loads a zone whose name was found to be good.
func location(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC // its files were removed since
	}
	return zone
}

// digests are of the policy, for people and metrics, and of everything, for [Snapshot.Equal].
func digests(cfg Config, list []Tenant, known []*sum) (policy string, full [sha256.Size]byte, sums []sum) {
	shared := Config{
		DefaultPool: cfg.DefaultPool, Timezone: cfg.Timezone, Timeouts: cfg.Timeouts, MaxBody: cfg.MaxBody,
		Pools: cfg.Pools, Prices: cfg.Prices, Listed: cfg.Listed,
	}
	shared.Upstreams = slices.Clone(cfg.Upstreams)
	for i := range shared.Upstreams {
		shared.Upstreams[i].APIKey = ""
		shared.Upstreams[i].LimitsAPI = LimitsAPI{}
		shared.Upstreams[i].TLS = UpstreamTLS{}
	}
	published := sha256.New()
	all := sha256.New()
	published.Write(encode(shared))
	all.Write(encode(cfg))
	sums = make([]sum, len(list))
	sideBySide(len(list), func(i int) {
		if known != nil && *known[i] != (sum{}) {
			sums[i] = *known[i]
			return
		}
		t := list[i]
		t.Index = 0 // which follow from the names of all
		t.Parent = 0
		sums[i] = sha256.Sum256(encode(&t))
		if known != nil {
			*known[i] = sums[i]
		}
	})
	for i := range sums {
		published.Write(sums[i][:])
		all.Write(sums[i][:])
		if len(cfg.Identity.Issuers) > 0 { // of several groups of a token the order decides
			all.Write(binary.LittleEndian.AppendUint64(nil, uint64(list[i].Order)))
		}
	}
	return hex.EncodeToString(published.Sum(nil)), [sha256.Size]byte(all.Sum(nil)), sums
}

func encode(part any) []byte {
	data, err := json.Marshal(part)
	if err != nil {
		panic("llmgov: BUG: encoding a snapshot: " + err.Error())
	}
	return data
}

// Config is the config file's part, with all layers applied. It is read-only.
func (s *Snapshot) Config() *Config { return &s.cfg }

// Pools are all pools, sorted by name. The slice is read-only.
func (s *Snapshot) Pools() []Pool { return s.cfg.Pools }

// Tenants are all tenants and their teams, sorted by name, so a parent stands before its teams. The slice is
// read-only.
func (s *Snapshot) Tenants() []Tenant { return s.tenants }

// Hash is a hexadecimal digest of the effective policy: of all values that decide about requests. Nodes of one fleet agree on it, so
// names, addresses and the store of a node are not in it, nor are comments, places, the order of files, and secrets
// (it is published, and a short secret could be guessed from it). To tell whether a reload changed anything at all,
// use [Snapshot.Equal].
func (s *Snapshot) Hash() string { return s.hash }

// Equal reports whether two snapshots say the same, secrets and addresses included; only places may differ.
func (s *Snapshot) Equal(o *Snapshot) bool { return s.full == o.full }

// Since counts the tenants and teams that were added, removed and changed since another snapshot; places do not count.
func (s *Snapshot) Since(before *Snapshot) (added, removed, changed int) {
	at := 0
	for i := range s.tenants {
		for at < len(before.tenants) && before.tenants[at].Name < s.tenants[i].Name {
			at++
			removed++
		}
		switch {
		case at == len(before.tenants) || before.tenants[at].Name != s.tenants[i].Name:
			added++
			continue
		case before.sums[at] != s.sums[i]:
			changed++
		}
		at++
	}
	return added, removed + len(before.tenants) - at, changed
}

// Lookup finds an API key, and whose it is. Whether it has expired is for who has a clock. It allocates nothing.
func (s *Snapshot) Lookup(key string) (*Tenant, *Key, bool) {
	return s.LookupHash(HashKey(key))
}

// LookupHash is [Snapshot.Lookup] by the key's hash.
func (s *Snapshot) LookupHash(h KeyHash) (*Tenant, *Key, bool) {
	slot := s.byKey.slot(&h)
	if !slot.used {
		return nil, nil, false
	}
	return &s.tenants[slot.at.tenant], slot.at.key, true
}

// TenantByName finds a tenant. It allocates nothing.
func (s *Snapshot) TenantByName(name string) (*Tenant, bool) {
	i, ok := s.byName[name]
	if !ok {
		return nil, false
	}
	return &s.tenants[i], true
}

// PoolOf finds the pool that serves a model: the exact name, an alias among them, else the glob with the most literal
// characters. It allocates nothing.
func (s *Snapshot) PoolOf(model string) (*Pool, bool) {
	i, ok := s.routes.find(model)
	if !ok {
		return nil, false
	}
	return &s.cfg.Pools[i], true
}

// Price finds the price of a model: the entry of its exact name, else the glob with the most literal characters. One that has none of these, but that of
// a glob of any model, has the price of a list that knows it. An alias
// without an entry of its exact name has the price of its model. nil is none. It allocates nothing.
func (s *Snapshot) Price(model string) *Price {
	return s.prices.find(model)
}

// Location is the zone of [Config.Timezone], in which the windows of budgets begin.
func (s *Snapshot) Location() *time.Location { return s.zone }

// runtimeKeys is a snapshot's part that a [KeyFile] fills.
type runtimeKeys struct {
	keyfile.Content
	file  string // on the disk; empty where there is none
	shown string // the user's name of it
	// The snapshot's table and digest without them.
	policy keyTable
	full   [sha256.Size]byte
}
