// Package process tests one gateway as a process of its own: how it starts, ends and is killed, how it follows its files, and
// all that it does of itself. How it governs calls is tested in other rooms, without a process.
package process
