package top

// newTabs are the views that the tab key switches between.
func newTabs(g Glyphs) []*screen {
	return []*screen{
		{title: "Pools", sheet: poolList(g)},
		{title: "Tenants", sheet: tenantList("", g), wants: wants{shares: true}},
		{title: "Leases", sheet: leaseList("", g), wants: wants{leases: true}},
		{title: "Nodes", sheet: nodeList(g), above: storeLines},
	}
}
