package instance

import (
	"fmt"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// anewFor is how long it is said that budgets began anew.
const anewFor = 10 * time.Minute

// isNew reports whether a store had no data of llmgov before its first answer to this process, so far as one can tell.
func isNew(r *federation.Reply, expect int) bool {
	if r.Status == federation.Learning {
		return !r.Lost
	}
	// A gateway that is expected to be alone is granted at once.
	return r.Status == federation.Granted && expect == 1 && r.Now-r.Epoch < firstAnswer.Milliseconds()
}

// unknownBudgets counts the budgets of which nothing is known, and names one. There are none if anything is known of any: then it was
// remembered in state_dir.
func unknownBudgets(s *governor.State) (n int, first string) {
	note := func(of string, list []governor.BudgetState) (used bool) {
		for _, b := range list {
			if b.Used > 0 {
				return true
			}
			if b.Limit > 0 && b.Pool == "" {
				n++
				if first == "" {
					first = b.Name() + " of " + of
				}
			}
		}
		return false
	}
	for i := range s.Tenants {
		if note("tenant "+s.Tenants[i].Config.Name, s.Tenants[i].Budgets) {
			return 0, ""
		}
	}
	for i := range s.Pools {
		if note("pool "+s.Pools[i].Config.Name, s.Pools[i].Budgets) {
			return 0, ""
		}
	}
	return n, first
}

// noteFirst looks, at the first answer to this process, whether budgets begin anew, and says so.
func (s *sharing) noteFirst(now time.Time, r *federation.Reply, expect int) {
	s.mu.Lock()
	first := !s.answered
	s.answered = true
	s.mu.Unlock()
	if !first || !isNew(r, expect) {
		return
	}
	state := s.gov.State()
	n, which := unknownBudgets(&state)
	if n == 0 {
		return
	}
	text := fmt.Sprintf("The store is new, and this gateway remembers nothing: %d budgets begin anew, such as %s.", n, which)
	s.log.Warn(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.anew = adminapi.Condition{Kind: adminapi.BudgetsBeginNew, Severity: adminapi.Warning, Since: &now, Message: text}
}

// conditions are what is wrong with the gateways that share the store, and with what it remembers.
func (s *sharing) conditions(now time.Time) (list []adminapi.Condition) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.anew.Since != nil && now.Sub(*s.anew.Since) < anewFor {
		list = append(list, s.anew)
	}
	return append(list, s.absent.missing()...)
}
