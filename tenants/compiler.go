package tenants

// compiler holds the parts while they are checked against each other and defaults are filled in.
type compiler struct {
	r       *report
	cfg     *Config
	tenants []Tenant
	// complete says that no pool's models were refused, set by models.
	complete bool
	parent   []bool   // which tenants have teams, by index
	byKey    keyTable // who has each key first, set by tenantList
	routes   routes
	scopes   [][]string       // the patterns that each tenant may use, by index, set by tenantList
	pairs    int              // of patterns of teams and of their parents
	reached  map[string][]int // granted pattern → pools
	said     map[string]bool  // problems that several tenants of a tier share
}

// missing reports whether a required part is absent and not just refused: then it has a place.
func (c *compiler) missing(path string, n int) bool { return n == 0 && !c.written(path) }

// written reports whether a path is in the files.
func (c *compiler) written(path string) bool {
	_, ok := c.r.Written(path)
	return ok
}

func poolNames(pools []Pool) []string {
	names := make([]string, len(pools))
	for i := range pools {
		names[i] = pools[i].Name
	}
	return names
}
