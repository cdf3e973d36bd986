// Package instance wires one instance of llmgov together, from its policy: everything that has to be there before
// a call can be admitted, whichever door the calls come by.
//
//	tenants.Snapshot ──► governor ◄─► journal (state_dir)
//	                        │   └───► events.Ring, decisions.Writer (decision_log)
//	                        │   ◄───► sharing ◄─► store, if one is shared
//	                        └───────► admission.Controller ──► doors
//	files ──► Reloader ──► Controller.Apply
//
// Open builds the parts, Run lets those work that do so by themselves until its context ends, and Close closes
// them. The serve command adds listeners and the gateway; package embedded adds the door for its program.
package instance
