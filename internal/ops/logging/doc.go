// Package logging writes log lines without keeping those waiting who log.
//
// A gateway logs a line for each call, and the reader of its standard error may be slow, or stop. So [New]
// returns a logger that adds lines to a batch in memory. A goroutine writes a line that comes alone at once,
// and others as they gather, every few milliseconds: a call pays for a copy, not for a system call, and
// waits for nobody. Lines that find the batch full are counted, and the count is logged as soon as there
// is room.
//
// Nothing is lost at an orderly end, nor when a call has panicked in the governor or a second signal ends the process at once
// (package crash), because the function that New returns as well writes the rest. A process that is killed loses the
// lines of its last few milliseconds.
//
// [JSON] is slog's JSON handler, and [Line] a shorter way to it for plain lines.
package logging
