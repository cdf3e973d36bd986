package terms

import (
	"cmp"
	"strings"
	"time"
)

// Members is what those get who call in a tenant's name, each by a name of its own that no configuration lists.
type Members struct {
	// Each has the Weight, limits and Budgets of a member. All else is its tenant's.
	Each Tenant
	// Of are those of single members, by name, in place of Each.
	Of map[string]MemberOverride
}

// MemberOverride is what one member gets in place of what each does.
type MemberOverride struct {
	Tenant
	// Until is when that ends, and Then what comes after it; the zero time is never, and nil what each gets.
	Until time.Time
	Then  *MemberOverride
}

// MostMembers is how many members of one tenant are told apart. When there are as many, a new one takes the place of one that has not called for long; while
// there is none, it counts as those that name none.
const MostMembers = 100_000

// memberMark stands between the name of a tenant and that of a member. No name of a tenant or team has it.
const memberMark = "/~"

// MemberName is the full name of a tenant's member, as requests and leases have it. The member "" is all calls that name none.
func MemberName(tenant, member string) string { return tenant + memberMark + member }

// CutMember cuts the name of a member off that of its tenant or team.
func CutMember(name string) (tenant, member string, is bool) {
	if at := strings.LastIndex(name, memberMark); at >= 0 {
		return name[:at], name[at+len(memberMark):], true
	}
	return name, "", false
}

// OwnerOf is the tenant or team of a configuration that a name is of, which may be a member's.
func OwnerOf(name string) string {
	owner, _, _ := CutMember(name)
	return owner
}

// Called is how messages name a tenant, a team or a member.
func Called(name string) string {
	tenant, member, is := CutMember(name)
	switch kind, rest, of := strings.Cut(member, ":"); {
	case !is:
		return "tenant " + tenant
	case member == "":
		return "callers of tenant " + tenant + " that give no name"
	case of && (kind == "key" || kind == "session"):
		return kind + " " + rest + " of tenant " + tenant
	}
	return "member " + member + " of tenant " + tenant
}

// Member is the configuration of one of the tenant's members, and when it changes by itself; never is the zero time.
func (t *Tenant) Member(name string, now time.Time) (m Tenant, until time.Time) {
	m = t.Members.Each
	if o, ok := t.Members.Of[name]; ok {
		at := &o
		for at != nil && !at.Until.IsZero() && !now.Before(at.Until) {
			at = at.Then
		}
		if at != nil {
			m = at.Tenant
			until = at.Until
		}
	}
	m.Name = MemberName(t.Name, name)
	m.Weight = cmp.Or(m.Weight, 1)
	m.Tier = t.Tier
	m.Credit = t.Credit
	m.Background = t.Background
	m.Below = t.Below
	m.MaxWait = t.MaxWait
	m.Shadow = t.Shadow
	m.Pools = t.Pools
	return m, until
}
