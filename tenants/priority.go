package tenants

import (
	"strconv"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
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
	t.Below = readBelow(v)
	t.Background = IsBackground(t.Below)
	if t.Background {
		t.Below = 0
	}
}

// readBelow reads a priority, as BelowOf spells it.
func readBelow(v value) int64 {
	text, ok := v.Scalar()
	if !ok {
		return 0
	}
	below, known := BelowOf(text)
	if n, err := strconv.ParseInt(text, 10, 64); !known && err == nil {
		v.Problem("%d is not a priority; use 0 to %d, interactive or background", n, mostPriority)
	} else if !known {
		v.Problem("%s is not a priority; %s", v.Say(text), strictyaml.AdviseWord(text, append([]string{"0 to 9"}, priorities.list...)))
	}
	return below
}

// BelowOf is how far a priority, as files and headers spell it, is below the highest: 0 to 9, and 10 for background. It reports false if it
// is none.
func BelowOf(text string) (below int64, ok bool) {
	switch text {
	case priorities.list[0]:
		return 0, true
	case priorities.list[1]:
		return mostPriority + 1, true
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n > mostPriority {
		return 0, false
	}
	return mostPriority - int64(n), true
}

// IsBackground reports whether a call that is so far below the highest priority is in the background.
func IsBackground(below int64) bool { return below > mostPriority }

// SpellPriority is the priority that is so far below the highest.
func SpellPriority(below int64) string {
	switch {
	case IsBackground(below):
		return priorities.list[1]
	case below > 0:
		return strconv.FormatInt(mostPriority-below, 10)
	}
	return priorities.list[0]
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
	if t.Background {
		return priorities.list[1]
	}
	return SpellPriority(t.Below)
}
