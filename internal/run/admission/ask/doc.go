// Package ask has the words between admission and its doors: an Ask, which describes a call whatever protocol its caller
// speaks, and a Refusal. A program that only reads calls and asks a governor elsewhere links these alone.
package ask
