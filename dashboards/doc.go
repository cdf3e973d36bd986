// Package dashboards has what an operator looks at, and is woken by: Grafana dashboards,
// Prometheus rules and alerts, made in Go and written as files.
//
//	overview, fairness, …  ──► Dashboard ──► JSON   grafana/dashboards
//	recordings, alerts     ──► Group     ──► YAML   prometheus
//	                           texts                grafana/provisioning, prometheus.yml
//
// They are code so that they cannot rot. What is asked for thirty times is written once, and
// tests see what a click in an editor would not: that each metric is registered, that each
// query is answered with data by a real Prometheus that scrapes a real gateway under load,
// that each alert has a case in which it fires, one in which it does not, and a section of
// docs/operations.md that says what to do.
//
// # Rules
//
//   - Features of Grafana 9.4 only (schemaVersion 37), so that older servers show them too.
//   - Each panel has a description and a unit, and asks the data source of the variable.
//   - A dashboard needs no rules: it asks for what is scraped. Alerts ask for the rules.
//   - No query compares the label le of a histogram with a number: what is "5" as text is
//     "5.0" as OpenMetrics, which Prometheus asks for.
//   - Several gateways may be behind one job. What each counts for itself is added up; what
//     all of them know alike, such as a limit that they share, is not.
//
// In queries @gateway, @pool, @tenant and @region stand for the matchers of the variables.
package dashboards
