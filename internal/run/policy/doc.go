// Package policy turns tenants' files into rules of the governor. Files speak to people, in words and
// with defaults; the governor decides by numbers. Neither knows the other.
//
//	tenants.Snapshot ──► Governor ──► governor.Config
//
// The gateway, `plan` and tests all take their rules from here; a program that embeds the governor can
// take its own from the same files.
package policy
