// Package admission is the life of a governed call, whatever protocol its caller speaks.
package admission
