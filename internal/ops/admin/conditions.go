package admin

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// conditionsOf lists all problems with more that others see, errors first. notReady is the reason why no calls should be sent
// here, or nil, and unreadable are the accounts that the store cannot read.
func conditionsOf(v *adminapi.Snapshot, notReady error, unreadable []adminapi.Unreadable, more ...adminapi.Condition) []adminapi.Condition {
	out := []adminapi.Condition{}
	for i := range v.Pools {
		out = append(out, upstreamConditions(&v.Pools[i])...)
	}
	out = append(out, storeConditions(v.Pools)...)
	out = append(out, unreadableConditions(unreadable)...)
	if notReady != nil {
		out = append(out, adminapi.Condition{
			Kind: adminapi.NotReady, Severity: adminapi.Error, Message: "This gateway is not ready: " + notReady.Error() + ".",
		})
	}
	out = append(out, policyConditions(v.Policy)...)
	if v.Draining {
		out = append(out, adminapi.Condition{
			Kind: adminapi.Draining, Severity: adminapi.Warning, Message: "This gateway is draining: no new calls should be sent to it, and it ends when its calls have.",
		})
	}
	out = append(out, more...)
	slices.SortStableFunc(out, func(a, b adminapi.Condition) int {
		return cmp.Compare(rank(a.Severity), rank(b.Severity))
	})
	return out
}

func rank(s adminapi.Severity) int {
	return slices.Index([]adminapi.Severity{adminapi.Error, adminapi.Warning}, s)
}

// upstreamConditions is an error if all upstreams of a pool are down, and a warning for each that
// is down while others serve.
func upstreamConditions(p *adminapi.Pool) []adminapi.Condition {
	var out []adminapi.Condition
	for i := range p.Upstreams {
		u := &p.Upstreams[i]
		if u.Since != nil {
			out = append(out, adminapi.Condition{
				Kind: adminapi.UpstreamDown, Severity: adminapi.Warning, Since: u.Since, Pool: p.Name, Upstream: u.Name,
				Message: "Upstream " + u.Name + " of pool " + p.Name + " is down" + reason(u) + ". Others serve its calls.",
			})
		}
	}
	if len(out) == 0 || len(out) < len(p.Upstreams) {
		return out
	}
	last := slices.MaxFunc(out, func(a, b adminapi.Condition) int { return a.Since.Compare(*b.Since) })
	all := adminapi.Condition{
		Kind: adminapi.UpstreamDown, Severity: adminapi.Error, Since: last.Since, Pool: p.Name,
		Message: fmt.Sprintf("All %d upstreams of pool %s are down.%s", len(out), p.Name, reasons(p)),
	}
	if len(out) == 1 {
		all.Upstream = last.Upstream
		all.Message = "Upstream " + last.Upstream + " of pool " + p.Name + " is down" + reason(&p.Upstreams[0]) + "."
	}
	return []adminapi.Condition{all}
}

// reason is why an upstream is down and when a call will be tried there, as far as that is known.
func reason(u *adminapi.Upstream) string {
	text := ""
	if u.Cause != "" {
		text = ": " + u.Cause
	}
	if u.Until != nil {
		text += fmt.Sprintf("; next probe in %.0f s", max(0, math.Ceil(time.Until(*u.Until).Seconds())))
	}
	return text
}

// reasons are those of all upstreams of a pool that have any.
func reasons(p *adminapi.Pool) string {
	var list []string
	for i := range p.Upstreams {
		if text := reason(&p.Upstreams[i]); text != "" {
			list = append(list, p.Upstreams[i].Name+text)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return " " + strings.Join(list, "; ") + "."
}

// lowerLimits are warnings of pools whose limits are lower than configured, because upstreams declare lower ones or others use them.
func lowerLimits(pools []governor.PoolState) (list []adminapi.Condition) {
	for i := range pools {
		p := &pools[i]
		var less []string
		configured := p.Config.Minute()
		for k, by := range p.Below() {
			if by > 0 {
				less = append(less, fmt.Sprintf("%s %d instead of %d", escrow.Axis(k).Key(), configured[k]-by, configured[k]))
			}
		}
		if len(less) > 0 {
			list = append(list, adminapi.Condition{
				Kind: adminapi.LimitLower, Severity: adminapi.Warning, Pool: p.Config.Name,
				Message: "The upstreams of pool " + p.Config.Name + " declare lower limits than are configured, or others use them, and what is left is kept to: " + strings.Join(less, ", ") + ".",
			})
		}
	}
	return list
}

// storeConditions are one if the shared store does not answer for some pools, and one if it has
// lost its data.
func storeConditions(pools []adminapi.Pool) []adminapi.Condition {
	var lost, learning, modes []string
	why, seconds := "", 0.0
	var since *time.Time
	failure := ""
	for i := range pools {
		s := pools[i].Sharing
		switch {
		case s == nil:
		case s.Error != "":
			lost = append(lost, pools[i].Name)
			if s.FailingSince != nil && (since == nil || s.FailingSince.Before(*since)) {
				since = s.FailingSince
			}
			failure = cmp.Or(failure, s.Error)
			if s.Degraded != "" && !slices.Contains(modes, s.Degraded) {
				modes = append(modes, s.Degraded)
			}
		case s.LearningSeconds > 0:
			learning = append(learning, pools[i].Name)
			why = cmp.Or(why, s.Learning)
			seconds = max(seconds, s.LearningSeconds)
		}
	}
	var out []adminapi.Condition
	if len(lost) > 0 {
		text := "The store does not answer for " + poolList(lost) + ": " + failure + ". "
		if len(modes) == 0 {
			text += "Calls use existing grants."
		} else {
			text += "Failure mode in force: " + strings.Join(modes, ", ") + "."
		}
		out = append(out, adminapi.Condition{Kind: adminapi.StoreLost, Severity: adminapi.Error, Since: since, Message: text})
	}
	if len(learning) > 0 {
		text := fmt.Sprintf("%s At most %.0f s are left.", why, math.Ceil(seconds))
		if others := learning[1:]; len(others) > 0 {
			text += " The same goes for " + poolList(others) + "."
		}
		out = append(out, adminapi.Condition{Kind: adminapi.StoreLearning, Severity: adminapi.Warning, Message: text})
	}
	return out
}

// mostNamed is how many accounts that cannot be read are named. The log has all.
const mostNamed = 5

// unreadableConditions is an error if the store cannot read accounts of limits.
func unreadableConditions(list []adminapi.Unreadable) []adminapi.Condition {
	if len(list) == 0 {
		return nil
	}
	var names []string
	first := &list[0]
	for i := range list {
		names = append(names, list[i].Owner)
		if list[i].Since.Before(first.Since) {
			first = &list[i]
		}
	}
	if more := len(names) - mostNamed; more > 0 {
		names = append(names[:mostNamed], fmt.Sprintf("%d more", more))
	}
	return []adminapi.Condition{{
		Kind: adminapi.StoreUnreadable, Severity: adminapi.Error, Since: &first.Since,
		Message: "The store's accounts of these limits cannot be read: " + strings.Join(names, ", ") + ". Nothing is granted of them, unless on_store_loss is open. " + first.Error + ".",
	}}
}

func poolList(names []string) string {
	if len(names) == 1 {
		return "pool " + names[0]
	}
	return "pools " + strings.Join(names, ", ")
}

// unfitConditions is a warning of what was set at run time and does not fit the files.
func unfitConditions(list []string) []adminapi.Condition {
	if len(list) == 0 {
		return nil
	}
	message := strings.ToUpper(list[0][:1]) + list[0][1:]
	if more := len(list) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	return []adminapi.Condition{{Kind: adminapi.RuntimeUnfit, Severity: adminapi.Warning, Message: strings.TrimSuffix(message, ".") + "."}}
}

// policyConditions are problems of the files, and settings that need a restart.
func policyConditions(s *adminapi.PolicyStatus) []adminapi.Condition {
	var out []adminapi.Condition
	if s == nil {
		return out
	}
	if !s.Success {
		text := "The files cannot be read"
		if len(s.Problems) > 0 {
			text = s.Problems[0].String()
		}
		if more := len(s.Problems) - 1; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
		text += ". The previous policy stays in force."
		out = append(out, adminapi.Condition{Kind: adminapi.PolicyInvalid, Severity: adminapi.Error, Since: s.FailingSince, Message: text})
	}
	if len(s.NeedsRestart) > 0 {
		out = append(out, adminapi.Condition{
			Kind: adminapi.RestartNeeded, Severity: adminapi.Warning,
			Message: "Restart this gateway to apply " + strings.Join(s.NeedsRestart, ", ") + ".",
		})
	}
	return out
}
