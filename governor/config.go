package governor

import (
	"errors"
	"time"

	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/governor/terms"
)

// The values of a configuration. Package terms describes them.
type (
	Pool         = terms.Pool
	Tenant       = terms.Tenant
	Limits       = terms.Limits
	Upstream     = terms.Upstream
	Budget       = terms.Budget
	Unit         = terms.Unit
	Members      = terms.Members
	TokenWeights = terms.TokenWeights
	Usage        = terms.Usage
	Price        = terms.Price
	OnLoss       = terms.OnLoss
	LimitsMode   = terms.LimitsMode
)

// The words of these values.
const (
	UnitTokens   = terms.UnitTokens
	UnitRequests = terms.UnitRequests
	UnitMicroUSD = terms.UnitMicroUSD

	LossClosed = terms.LossClosed
	LossOpen   = terms.LossOpen
	LossLocal  = terms.LossLocal

	LimitsLeased     = terms.LimitsLeased
	LimitsCachedDeny = terms.LimitsCachedDeny
	LimitsStrict     = terms.LimitsStrict

	MaxShared = terms.MaxShared
	MaxBudget = terms.MaxBudget

	TierBatch = terms.TierBatch

	units = terms.Units
)

// Config is all that a Governor needs to know.
type Config struct {
	Pools   []Pool
	Tenants []Tenant
	// Zone is where the periods of budgets begin; nil is UTC.
	Zone *time.Location
	// Clock defaults to SystemClock.
	Clock Clock
	// Journal keeps what must outlive the process; nil keeps nothing.
	Journal Journal
	// Past is the memory of earlier processes; nil is none.
	Past *record.Past
	// Fresh says that nothing was used of the pools in the last minute but what is in Past. Pools begin with their Burst then, or if the Past is that of
	// a process that has admitted calls, and else with one second of their rate, because an earlier process may have used the minute.
	Fresh bool
	// Shared says that the rolling minutes of all pools are shared with other processes. A pool then admits
	// calls as far as somebody who knows of all processes allows; see SharedPools. The usage of a
	// pool is known there, and not taken from Past.
	Shared bool
	// SharedLimits says that the tenants' own limits and budgets are kept together with other
	// processes. This process then counts up to its grant of each; see Governor.SharedLimits. What
	// was used of them is known there, and not taken from Past.
	SharedLimits bool
	// SharedSlots says that Concurrency and Budgets of all pools are divided over the processes
	// that share their limits; see Governor.SharedSlots. It needs Shared.
	SharedSlots bool
	// Instance names the process to others that share its limits, and is new at each start; empty draws a name.
	Instance string
	// Observer is told what happens; nil means that nobody listens.
	Observer Observer
	// Recorded makes all decisions a function of what the Observer is told: another governor that
	// is told the same at the same times (see Ask) decides the same. Decisions are then made one
	// after the other over all pools, each in an instant of its own, after which the Observer
	// is called. Where limits are shared, the Observer is told of their grants as well (see Governor.Retell).
	Recorded bool
	// Detailed has the Observer told of the events from EventStarted on, too, as Recorded does,
	// but makes nothing of it: calls are decided as they would be. Who tells another governor
	// the same has nearly the same decisions.
	Detailed bool
	// Revision names the configuration to the Observer.
	Revision string
}

// Validate reports everything that is wrong.
func (c Config) Validate() error {
	list := c.checkSharing()
	return errors.Join(append(list, terms.Check(c.Pools, c.Tenants, c.Shared)...)...)
}

// checkSharing finds ways to share limits that do not go together.
func (c *Config) checkSharing() (faults []error) {
	if c.SharedSlots && !c.Shared {
		faults = append(faults, errors.New("governor: SharedSlots is of pools whose limits are shared: set Shared, too"))
	}
	return faults
}
