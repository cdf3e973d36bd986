// Package admin answers the admin listener: probes, metrics, the admin API, the console's page, and
// profiles. It reads the governor's state and asks the data side through one interface, Gateway.
//
// A request passes the guard against panics, the bound on its body, the check of cross-origin
// requests, who calls and what that may do (access.go), and then the handler of its route: snapshot.go,
// tenants.go, fairness.go, history.go, policy.go, explain.go, events.go, keys.go, overrides.go and reload.go. The
// JSON types are in package adminapi.
package admin
