package memory

import (
	"maps"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		set := int64(0)
		began := time.Now()
		s := New(Config{Now: func() int64 {
			if set != 0 {
				return set
			}
			return time.Since(began).Milliseconds() + 1
		}})
		return storetest.Harness{
			Store: s, Rules: federation.DefaultRules(),
			SetClock: func(now int64) { set = now },
			Replace:  func(incarnation string) { s.incarnation = incarnation },
			Save: func() func() {
				kept := map[string][]byte{}
				for pool, a := range s.accounts {
					b := testkit.Must(a.Encode())(t)
					kept[pool] = b
				}
				return func() {
					for pool := range maps.Keys(s.accounts) {
						a := testkit.Must(federation.Decode(kept[pool], s.cfg.Rules))(t)
						s.accounts[pool] = a
					}
				}
			},
		}
	})
}
