// Package report shows the result of a simulation: as a table for a terminal, or as one HTML page with charts. It computes
// nothing but sums of the figures that it shows.
package report
