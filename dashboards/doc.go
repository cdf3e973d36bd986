// Package dashboards has Grafana dashboards, Prometheus rules and alerts, made in Go and written as
// files.
//
//	overview, fairness, …  ──► Dashboard ──► JSON   grafana/dashboards
//	recordings, alerts     ──► Group     ──► YAML   prometheus
//	                           texts                grafana/provisioning, prometheus.yml
//
// They are code so that they cannot rot. Queries that occur thirty times are written once, and
// tests check facts that an editor does not: that each metric is registered, that each query is
// answered with data by a real Prometheus that scrapes a real gateway under load, that each
// alert has a case in which it fires, one in which it does not, and a section of
// docs/alerts.md that says how to react.
//
// # Rules
//
//   - Features of Grafana 9.4 only (schemaVersion 37), so that older servers show them too.
//   - Each panel has a description and a unit, and queries the data source of the variable.
//   - A dashboard needs no rules: it queries scraped metrics. Alerts need the rules.
//   - No query compares the label le of a histogram with a number: "5" in the text format is
//     "5.0" in OpenMetrics, which Prometheus prefers.
//   - Several gateways may be behind one job. Counters of each gateway are added up; figures that
//     all of them report alike, such as a shared limit, are not.
//
// In queries @gateway, @pool, @tenant and @region stand for the matchers of the variables.
//
// # Stability
//
// Experimental: any release may change it.
package dashboards
