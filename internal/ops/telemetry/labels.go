package telemetry

// labels names the series of a tenant in a pool. An empty name stands for all.
type labels struct{ tenant, tier, pool string }

// shared are the names under which accounts are counted.
func (w labels) shared() [4]labels {
	return [4]labels{{tenant: w.tenant}, {pool: w.pool}, {tenant: w.tenant, pool: w.pool}, {tier: w.tier, pool: w.pool}}
}

// Other is the label of all tenants that have no series of their own, and of all such models.
const Other = "other"

// MaxAccounts is the number of tenants with series of their own, counted once for each pool that
// they may use; each has some twenty series. Tenants that come into a policy beyond it are counted
// together, as the tenant Other, as long as they are in the policy.
const MaxAccounts = 2000

// MaxModels is the number of models with series of their own, counted once for each tenant and pool. Those beyond it are counted as the
// model Other.
const MaxModels = 4000
