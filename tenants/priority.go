package tenants

import (
	"slices"
	"strconv"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// A priority is a word, or a number: the higher, the fewer slots of a pool with hold_back calls leave free.

var priorities = words[string]{"a priority", []string{"interactive", "background"}}

// mostPriority is the highest priority, which calls have that nobody says otherwise of.
const mostPriority = 9

// priorityKind is a word or a number.
func priorityKind() schema {
	s := strictyaml.WholeKind(0, mostPriority)()
	s["anyOf"] = append(s["anyOf"].([]any), schema{"enum": priorities.names()})
	return s
}

// readPriority reads a tenant's priority.
func readPriority(v value, t *draft) {
	t.Background = false
	t.Below = 0
	text, ok := v.Scalar()
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case !ok:
	case err != nil:
		t.Background = text == "background"
		if !slices.Contains(priorities.list, text) {
			v.Problem("%s is not a priority; %s", v.Say(text), strictyaml.AdviseWord(text, append([]string{"0 to 9"}, priorities.list...)))
		}
	case n < 0 || n > mostPriority:
		v.Problem("%d is not a priority; use 0 to %d, interactive or background", n, mostPriority)
	default:
		t.Below = mostPriority - n
	}
}

// priorities reports those that make no difference.
func (c *compiler) priorities() {
	holdsBack := func(p *Pool, path string) bool {
		return p.HoldBackPPM > 0 || c.r.Refused[strictyaml.Child(path, "concurrency")] ||
			c.r.Refused[strictyaml.Child(strictyaml.Child(path, "concurrency"), "hold_back")]
	}
	for i := range c.tenants {
		if t := &c.tenants[i]; t.Below > 0 && !t.Background {
			c.inert(t, "priority", c.reach(t), holdsBack,
				"tenant %s may use no pool with hold_back, so its priority does nothing; set hold_back in a pool's concurrency, or remove priority")
		}
	}
}

// priorityOf is a tenant's priority as files spell it.
func priorityOf(t *Tenant) string {
	switch {
	case t.Background:
		return "background"
	case t.Below > 0:
		return strconv.FormatInt(mostPriority-t.Below, 10)
	}
	return "interactive"
}
