// Package dashboards asks a real Prometheus, which scrapes real gateways under load, every query of the dashboards and alerts.
package dashboards
