// Package form reads multipart/form-data so that nobody can read it differently, and writes it anew.
//
// Servers differ in how they read a form: which line ends count, what a second closing boundary means,
// whether a part is a file, which of several parameters is the name. A gateway that decides by one
// reading and forwards the bytes lets another reading through. So [Parse] takes only the forms that
// clients write, and [Form.Encode] writes what was read in the one way that all servers read alike:
//
//	--BOUNDARY CRLF
//	Content-Disposition: form-data; name="model" CRLF
//	CRLF
//	gpt-4o-transcribe CRLF
//	--BOUNDARY CRLF
//	Content-Disposition: form-data; name="file"; filename="a.wav" CRLF
//	Content-Type: audio/wav CRLF
//	CRLF
//	… CRLF
//	--BOUNDARY-- CRLF
//
// The boundary is drawn anew, so no content can contain it. A text has no Content-Type and a file
// always has one, because some servers take that for the difference. Contents are not copied: they are
// slices of the body that was read.
//
// It does not know which fields decide about a call.
package form
