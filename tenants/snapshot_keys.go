package tenants

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/tenants/keyfile"
)

// withKeys is the snapshot with the keys of its key file.
func (s *Snapshot) withKeys(keys runtimeKeys) *Snapshot {
	keys.policy = s.runtime.policy
	keys.full = s.runtime.full
	out := *s
	out.runtime = keys
	out.byKey = keys.policy
	out.full = keys.full
	if len(keys.Keys)+len(keys.Revoked) == 0 {
		return &out
	}
	out.full = sha256.Sum256(append(out.full[:], keyfile.Encode(keys.Content)...))
	revoked := make(map[KeyHash]bool, len(keys.Revoked))
	for _, r := range keys.Revoked {
		revoked[r.Hash] = true
	}
	out.byKey = newKeyTable(len(keys.policy.slots)/2 + len(keys.Keys))
	for _, slot := range keys.policy.slots {
		if slot.used && !revoked[slot.hash] {
			out.byKey.put(slot.at)
		}
	}
	for i := range keys.Keys {
		k := &out.runtime.Keys[i]
		if t, known := s.byName[k.Tenant]; known && !keys.policy.has(&k.Hash) && !revoked[k.Hash] {
			out.byKey.put(keyAt{t, &k.Key})
		}
	}
	return &out
}

// keyless reports whether calls may come for tenants without keys: by tokens of an identity provider, or from programs and proxies that
// name the tenant.
func (c *Config) keyless() bool {
	return len(c.Identity.Issuers) > 0 || c.Admission.Listen != "" || c.Named
}

// Callable reports, by [Tenant.Index], for which tenants calls may come: those that have a key and, where none is needed, those that are
// not there for their teams; by tokens of an identity provider for all.
func (s *Snapshot) Callable() []bool {
	list := slices.Repeat([]bool{s.cfg.keyless()}, len(s.tenants))
	for i := range s.tenants {
		if parent := s.tenants[i].Parent; parent >= 0 {
			list[parent] = len(s.cfg.Identity.Issuers) > 0
		}
	}
	for _, slot := range s.byKey.slots {
		if slot.used {
			list[slot.at.tenant] = true
		}
	}
	return list
}

// WithKeys is the snapshot with other keys made and revoked at run time, and else the same. So a revocation counts
// also while the policy files cannot be loaded.
func (s *Snapshot) WithKeys(keys keyfile.Content) *Snapshot {
	next := s.runtime
	next.Content = keyfile.Content{Keys: slices.Clone(keys.Keys), Revoked: slices.Clone(keys.Revoked)}
	return s.withKeys(next)
}

// KeyFile is the file of the keys made at run time; nil in a snapshot that was not loaded from the disk.
func (s *Snapshot) KeyFile() *keyfile.File {
	if s.runtime.file == "" {
		return nil
	}
	return keyfile.New(s.runtime.file)
}

// KeyStatus says whether a key opens anything.
type KeyStatus string

// The statuses of keys. Whether a key has expired is for callers with a clock to say.
const (
	KeyOpens    KeyStatus = "active"
	KeyRevoked  KeyStatus = "revoked"
	KeyNoTenant KeyStatus = "no_tenant" // it is for a tenant that the policy does not have
	KeyOverlaid KeyStatus = "overlaid"  // the policy has it too, and that counts
)

// KeyInfo is one API key, wherever it is from.
type KeyInfo struct {
	Key
	Tenant string
	// Runtime says that it was made at run time, at Created; else it is in a policy file.
	Runtime bool
	Created time.Time
	Status  KeyStatus
}

// Keys lists all keys, of policy files and made at run time, sorted by tenant, and each's by name. A key that was
// revoked is listed as long as a policy file has it.
func (s *Snapshot) Keys() []KeyInfo {
	revoked := map[KeyHash]bool{}
	for _, r := range s.runtime.Revoked {
		revoked[r.Hash] = true
	}
	var list []KeyInfo
	add := func(k KeyInfo) {
		if revoked[k.Hash] {
			k.Status = KeyRevoked
		}
		list = append(list, k)
	}
	for i := range s.tenants {
		for _, k := range s.tenants[i].Keys {
			add(KeyInfo{Key: k, Tenant: s.tenants[i].Name, Status: KeyOpens})
		}
	}
	for _, k := range s.runtime.Keys {
		info := KeyInfo{Key: k.Key, Tenant: k.Tenant, Runtime: true, Created: k.Created, Status: KeyOpens}
		if _, known := s.byName[k.Tenant]; !known {
			info.Status = KeyNoTenant
		} else if _, taken := s.ofPolicy(k.Hash); taken {
			info.Status = KeyOverlaid
		}
		add(info)
	}
	slices.SortFunc(list, func(a, b KeyInfo) int {
		return cmp.Or(strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Name, b.Name), strings.Compare(a.Hash.ID(), b.Hash.ID()))
	})
	return list
}

// HasKey reports whether a key is of a policy file or was made at run time, be it revoked.
func (s *Snapshot) HasKey(h KeyHash) bool {
	return s.byKey.has(&h) || s.runtime.policy.has(&h) || slices.ContainsFunc(s.runtime.Revoked, func(k keyfile.Revoked) bool { return k.Hash == h })
}

// ofPolicy finds whose key a hash is in the policy files.
func (s *Snapshot) ofPolicy(h KeyHash) (tenant string, ok bool) {
	slot := s.runtime.policy.slot(&h)
	if !slot.used {
		return "", false
	}
	return s.tenants[slot.at.tenant].Name, true
}

// KeyNotes says of which keys somebody may think that they open something, or that they are still needed.
func (s *Snapshot) KeyNotes() []string {
	var notes []string
	for _, k := range s.Keys() {
		id := k.Hash.ID()
		switch {
		case k.Status == KeyNoTenant:
			notes = append(notes, fmt.Sprintf("%s: key %s is for tenant %s, which the policy does not have, so it opens nothing", s.runtime.shown, id, k.Tenant))
		case k.Status == KeyOverlaid:
			owner, _ := s.ofPolicy(k.Hash)
			notes = append(notes, fmt.Sprintf("%s: key %s of tenant %s is also in the policy, as one of tenant %s, and that counts", s.runtime.shown, id, k.Tenant, owner))
		case k.Status == KeyRevoked && !k.Runtime:
			notes = append(notes, fmt.Sprintf("tenant %s: its key %s was revoked; remove it from the policy", k.Tenant, id))
		}
	}
	return notes
}
