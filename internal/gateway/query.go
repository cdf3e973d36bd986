package gateway

import (
	"github.com/llmgov/llmgov/internal/gateway/dialect"
	"github.com/llmgov/llmgov/internal/gateway/head"
)

// readQuery reads the query. It refuses one that servers could read differently, or that says what
// belongs into the body.
func (c *call) readQuery() *refusal {
	c.query = nil
	if c.r.URL.RawQuery == "" {
		return nil
	}
	values, err := head.ReadQuery(c.r.URL.RawQuery)
	if err != nil {
		return unreadable(err)
	}
	if c.at.Azure {
		values.Del(dialect.VersionKey) // it is between the caller and this gateway
	}
	if c.route.ToObjects() {
		err = head.CheckKeys(values, c.route.Query)
	} else {
		err = head.CheckPlain(values)
	}
	if err != nil {
		return unreadable(err)
	}
	c.query = values
	return nil
}
