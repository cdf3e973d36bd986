// Package text makes text from outside fit for messages and logs.
package text

import "strings"

// Brief cuts text to a length fit for messages and logs.
func Brief(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
