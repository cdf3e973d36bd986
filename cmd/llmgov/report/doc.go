// Package report writes the tables that llmgov check and llmgov explain print: the limits of a policy, tenant by tenant in each
// pool, and the limits that one call meets.
//
// [New] is the report of check. The same value is the JSON of --json.
package report
