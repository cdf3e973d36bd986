package tenants

import "bytes"

// The bounds of policy files. A gateway reads files of many authors, again at each change, in the memory of its pod.
// So the sum of all files is bounded, far above a sensible one, and not only each file.
const (
	// maxPolicyBytes bounds one policy file, and maxAllPolicyBytes all of them together.
	maxPolicyBytes    = 4 << 20
	maxAllPolicyBytes = 16 << 20
	maxPolicyFiles    = 10_000
	// maxMarks bounds the marks of all policy files (see marks). A parsed value takes some 500 bytes while it is read.
	maxMarks = 400_000
	// maxTenants bounds tenants and teams together.
	maxTenants = 20_000
	maxTiers   = 200
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

// volumeOf is that of one file.
func volumeOf(data []byte) volume { return volume{bytes: len(data), marks: marks(data)} }

// volume is how much the policy files of one load hold.
type volume struct {
	bytes int
	marks int
}

// add counts a file in, and reports one that is too much.
func (u *volume) add(r *report, name string, file volume) bool {
	u.bytes += file.bytes
	u.marks += file.marks
	at := place{File: name, Line: 1, Col: 1}
	switch {
	case file.bytes > maxPolicyBytes:
		r.Add(at, "file is larger than the %d MiB that a policy file may have; split it", maxPolicyBytes>>20)
	case u.bytes > maxAllPolicyBytes:
		r.Add(at, "with this file the policy files are larger than the %d MiB that they may have together", maxAllPolicyBytes>>20)
	case u.marks > maxMarks:
		r.Add(at, "with this file the policy files hold more than the %d lines and values that they may have together", maxMarks)
	default:
		return true
	}
	return false
}
