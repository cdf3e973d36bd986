package tenants

import (
	"cmp"
	"fmt"
	"maps"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// PriorityBy lowers the priority of a call by what its client says of it in a header. It never raises one: clients can say what they like.
type PriorityBy struct {
	// Header is the header's name, as net/http spells it.
	Header string
	// Below is how far a call is below the highest priority, 0 to 9 or 10 for background, by the header's value. Other values leave it at that of its tenant.
	Below map[string]int64
}

// Of is how far a call with such headers is below the highest priority, as far as they say.
func (p *PriorityBy) Of(headers map[string][]string) int64 {
	if p == nil {
		return 0
	}
	below := int64(0)
	for _, value := range headers[p.Header] {
		below = max(below, p.Below[value])
	}
	return below
}

// String is as files have it, without brackets: the highest priority first.
func (p *PriorityBy) String() string {
	parts := []string{strings.ToLower(p.Header)}
	byPriority := func(a, b string) int { return cmp.Or(cmp.Compare(p.Below[a], p.Below[b]), cmp.Compare(a, b)) }
	for _, value := range slices.SortedFunc(maps.Keys(p.Below), byPriority) {
		parts = append(parts, value+" "+SpellPriority(p.Below[value]))
	}
	return strings.Join(parts, ", ")
}

var (
	// hintName is the name of a header that may say something of a call.
	hintName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	// hintValue is a value that it may have.
	hintValue = regexp.MustCompile(`^[!-~]([ -~]{0,62}[!-~])?$`)
	// secretHeaders carry keys, and are not compared with what files say.
	secretHeaders = []string{"Authorization", "Api-Key", "X-Api-Key", "Cookie", "Proxy-Authorization"}
)

func priorityByKind() schema {
	s := strictyaml.MapOf(hintValue.String(), priorityKind, 2)()
	header := strictyaml.TextKind(hintName.String())()
	header["description"] = "The name of the header."
	s["properties"] = schema{"header": header}
	s["required"] = []string{"header"}
	return s
}

// readPriorityBy reads a header's name, and priorities by its value.
func readPriorityBy(v value, t *draft) {
	list, _ := v.Pairs()
	by := &PriorityBy{Below: map[string]int64{}}
	for _, e := range list {
		if e.Key == "header" {
			name, _ := e.Scalar()
			by.Header = textproto.CanonicalMIMEHeaderKey(name)
			continue
		}
		by.Below[e.Key] = readBelow(e.Value)
	}
	if complaint := by.complain(); complaint != "" && len(list) > 0 {
		v.Problem("%s", complaint)
		return
	}
	t.PriorityBy = by
}

// The classes that Claude Code says its calls are of, which stand in a relation.
const (
	compaction = "compaction"
	subagent   = "subagent"
)

// complain is the mistake.
func (p *PriorityBy) complain() string {
	lowest := int64(0)
	for value, below := range p.Below {
		if !hintValue.MatchString(value) {
			return strictyaml.Show(value) + " is no value of a header; write up to 64 characters of ASCII"
		}
		lowest = max(lowest, below)
	}
	c, compacts := p.Below[compaction]
	s, forks := p.Below[subagent]
	switch {
	case p.Header == "":
		return "says no header; write header: and its name, such as x-claude-code-request-class"
	case !hintName.MatchString(p.Header):
		return strictyaml.Show(p.Header) + " is no name of a header; write letters, digits and hyphens"
	case slices.Contains(secretHeaders, p.Header):
		return strictyaml.Show(p.Header) + " carries a key; choose a header that says what a call is for"
	case lowest == 0:
		return fmt.Sprintf("lowers no priority; give a value of the header a priority below %d, or remove priority_by", mostPriority)
	case compacts && forks && c > s:
		return fmt.Sprintf("compaction has priority %s, and would wait behind the subagents of its own session, which have %[2]s; write %[2]s or more, or leave it out",
			SpellPriority(c), SpellPriority(s))
	}
	return ""
}
