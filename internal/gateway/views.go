package gateway

// What the admin API answers, for clients in Go.
type (
	Snapshot     = snapshotView
	PoolView     = poolView
	AxisView     = axisView
	AdaptiveView = adaptiveView
	UpstreamView = upstreamView
	BudgetView   = budgetView
	LeaseView    = leaseView
	FairnessView = fairnessView
	ShareView    = shareView
	PoolFairness = poolFairness
)
