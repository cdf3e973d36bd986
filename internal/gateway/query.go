package gateway

import (
	"net/url"
	"slices"
	"strings"
)

// How the query is read: once, and from there on only what was read counts. The upstream gets it
// written anew.

// readQuery refuses a query that servers could read differently, or that says what belongs into the
// body.
func (c *call) readQuery() *refusal {
	c.query = nil
	if c.r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return invalid("", "The query cannot be read: "+err.Error()+".")
	}
	if c.at.azure {
		values.Del(apiVersionKey) // it is between the caller and this gateway
	}
	for key, list := range values {
		if f := c.checkQueryKey(key, len(list)); f != nil {
			return f
		}
	}
	c.query = values
	return nil
}

// checkQueryKey checks one key, and how often it is there.
func (c *call) checkQueryKey(key string, times int) *refusal {
	if !c.route.toObjects() {
		return checkInferenceKey(key)
	}
	name, _, _ := strings.Cut(key, "[")
	known := slices.Contains(c.route.query, key) || name == "metadata" && slices.Contains(c.route.query, name)
	if !known { // it might ask for more than the gateway checks
		return invalid(brief(key), "The query key "+quoted(brief(key))+" is not supported on this route.")
	}
	if times > 1 && key != "include[]" && key != "include" {
		return invalid(brief(key), "The query says "+quoted(brief(key))+" twice.")
	}
	return nil
}

// checkInferenceKey accepts plain keys that are not governed. Some servers read governed fields from
// the query, too, and some take model[], model.x or model followed by a zero byte for model.
func checkInferenceKey(key string) *refusal {
	if name, read := governedKey(key); read != nil {
		return invalid(name, "The query says "+quoted(brief(key))+". Say it in the body.")
	}
	if !isPlain(key) {
		return invalid("", "The query key "+quoted(brief(key))+" must consist of letters, digits, - and _.")
	}
	return nil
}

// isPlain reports whether a key has letters, digits, - and _ only, so that every server reads it alike.
func isPlain(key string) bool {
	for i := 0; i < len(key); i++ {
		switch c := key[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return key != ""
}
