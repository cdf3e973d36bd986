package explain

import (
	"cmp"
	"slices"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// explainUpstreams lists the upstreams of a call's pool in the order in which they are tried.
func explainUpstreams(o *governor.Forecast) (list []adminapi.ExplainedUpstream) {
	for i := range o.Upstreams {
		u := &o.Upstreams[i]
		list = append(list, adminapi.ExplainedUpstream{
			Name: u.Name, Order: u.Order, State: u.Standing.String(),
			Key: limitKey(u.Lacks.Axis), Limit: float64(u.Lacks.Limit), Used: float64(u.Lacks.Used), Asked: float64(u.Lacks.Asked),
			Wait: u.Lacks.Wait.Seconds(),
		})
	}
	slices.SortStableFunc(list, func(a, b adminapi.ExplainedUpstream) int { return cmp.Compare(a.Order, b.Order) })
	return list
}
