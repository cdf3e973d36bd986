// Package admission is the life of a governed call, whatever protocol its caller speaks.
//
// A Controller has the policy in force and the governor that enforces it. It puts another policy in
// force as a whole, and keeps everything that calls have taught under the one before.
package admission
