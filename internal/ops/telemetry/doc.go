// Package telemetry holds the names of all metrics, and resolves their children
// ahead of time: a request touches counters, never label values.
//
// The governor's own books are read at scrape time, so that a metric and a
// decision cannot disagree. Labels are
// bounded: tenants, tiers, pools and reasons, never keys or end users.
package telemetry
