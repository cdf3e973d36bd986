// Package events lets many readers follow the decisions of a governor without slowing it
// down.
//
// # Picture
//
//	Governor ──Observe──► ring of the last events ──► Reader, at its own pace
//	                                               └─► Reader …
//
// Observers write into the ring and never wait. A reader has no queue, only the number of
// the event that it reads next. If it falls behind by more than the ring holds, it gets the
// number of overwritten events. So memory is bounded whatever the readers do, and a reader
// that comes back after a broken connection continues where it stopped, as long as the ring
// has those events.
//
// # Limits
//
// It keeps nothing over restarts: see package decisions. It knows neither HTTP nor JSON.
package events
