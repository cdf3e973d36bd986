// Package events lets many readers follow what a governor decides, without any of
// them slowing it down.
//
// # Picture
//
//	Governor ──Observe──► ring of the last events ──► Reader, at its own pace
//	                                               └─► Reader …
//
// Whoever observes writes into the ring and never waits. A reader has no queue: it has
// a number, that of the event it reads next. One that falls behind by more than the
// ring holds has lost what was overwritten, and is told how much that was. So memory is
// bounded whoever reads, and who comes back after a broken connection goes on where it
// stopped, as long as the ring has that.
//
// # What it is not
//
// It keeps nothing over restarts: see package decisions. It knows neither HTTP nor JSON.
package events
