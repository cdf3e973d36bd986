// Package scenario has the files that describe traffic upon one pool: their types, their reader, and those that are known by
// a name. It plays nothing; package simulate does.
//
// Files are YAML, and docs/scenarios.md has all of their keys with their defaults. Unknown keys, wrong types and contradictions
// are errors. Calls may come from files of their own, as CSV, whose paths begin at the folder of the scenario.
package scenario
