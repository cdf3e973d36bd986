package tenants

import (
	"bytes"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// The bounds of policy files. A gateway reads files of many authors, again at each change, in the memory of its pod. So what one
// author can do, in a file, is bounded. How much all of them may say is the operator's to set, with max_tenants in the config.
const (
	// maxPolicyBytes bounds a policy file.
	maxPolicyBytes = 4 << 20
	maxPolicyFiles = 10_000
	// maxMarks bounds the marks of a policy file (see marks). A parsed value takes some 500 bytes while its file is read.
	maxMarks = 400_000
	// maxFileTenants bounds the tenants and teams of a file together, and maxMaxTenants what max_tenants may allow all files.
	maxFileTenants = 20_000
	maxMaxTenants  = 10_000_000
	maxTiers       = 200
	// maxTeamDepth is how many teams may stand in each other, and maxPath how long the name is that leads to one.
	maxTeamDepth = 16
	maxPath      = 512
	// maxEntries bounds one list of keys, models or budgets.
	maxEntries = 250
	// maxCommon bounds the patterns that a team's models and those of its parents have in common.
	maxCommon = 250
	// maxPairs bounds the pairs of patterns that all teams' models and those of their parents make: the work of
	// comparing them.
	maxPairs = 10_000_000
)

// marks counts the characters of a YAML text that may begin a value. There are never more values than marks.
func marks(data []byte) int {
	n := 1
	for _, mark := range []string{"\n", ",", ":", "[", "{", "- ", "? "} {
		n += bytes.Count(data, []byte(mark))
	}
	return n
}

// parsePolicy parses a policy file, unless it is too much.
func parsePolicy(r *report, name string, data []byte) *document {
	at := place{File: name, Line: 1, Col: 1}
	switch {
	case len(data) > maxPolicyBytes:
		r.Add(at, "file is larger than the %d MiB that a policy file may have; split it", maxPolicyBytes>>20)
	case marks(data) > maxMarks:
		r.Add(at, "file holds more than the %d lines and values that a policy file may have; split it", maxMarks)
	default:
		return strictyaml.Parse(r, strictyaml.File{Name: name, Data: data, Expand: strictyaml.NoVariables})
	}
	return nil
}
