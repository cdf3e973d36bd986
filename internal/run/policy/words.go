package policy

import (
	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/tenants"
)

// The words of policies, and the governor's numbers for them. A word that is not set has the governor's zero value.

var laws = map[tenants.Law]adaptive.Law{
	tenants.Gradient: adaptive.Gradient,
	tenants.AIMD:     adaptive.AIMD,
}

var accountings = map[tenants.Accounting]escrow.Accounting{
	tenants.AdmitMax:   escrow.AdmitMax,
	tenants.Production: escrow.Production,
	tenants.SettleOnly: escrow.Settled,
}

var lossRules = map[tenants.StoreLossRule]governor.OnLoss{
	tenants.StoreLossClosed: governor.LossClosed,
	tenants.StoreLossOpen:   governor.LossOpen,
	tenants.StoreLossLocal:  governor.LossLocal,
}

var limitsModes = map[tenants.LimitsMode]governor.LimitsMode{
	tenants.LimitsLeased:     governor.LimitsLeased,
	tenants.LimitsCachedDeny: governor.LimitsCachedDeny,
	tenants.LimitsStrict:     governor.LimitsStrict,
}

var units = map[tenants.Unit]governor.Unit{
	tenants.Tokens:   governor.UnitTokens,
	tenants.Requests: governor.UnitRequests,
	tenants.MicroUSD: governor.UnitMicroUSD,
}

var kinds = map[tenants.Unit]limits.Axis{
	tenants.Tokens:   limits.Tokens,
	tenants.Requests: limits.Requests,
}

var shapes = map[tenants.Shape]shape.Kind{
	tenants.RollingWindow: shape.Rolling,
	tenants.FixedWindow:   shape.Fixed,
	tenants.TokenBucket:   shape.TokenBucket,
	tenants.GCRA:          shape.GCRA,
}

var periods = map[tenants.Period]budget.Period{
	tenants.Hour:  budget.Hour,
	tenants.Day:   budget.Day,
	tenants.Week:  budget.Week,
	tenants.Month: budget.Month,
}
