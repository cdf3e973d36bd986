// Package describe turns a request for inference into an ask.Ask, and says how its body is edited. The
// doors that see whole requests share it, so that a call is held, refused and charged in the same way at each.
//
//	headers ─► RequestID, Hints, Attempt
//	body ─► head.Head ─► Others, Deeper   the further models that it names
//	                 ├─► Ask              prompt, longest answer
//	                 └─► Edits            clamped, asked for its usage
package describe
