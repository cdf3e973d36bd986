// Package jsonscan reads a JSON document once, from front to back, and says which tokens it is made of.
// Most callers want [New] and [Scanner.Next]:
//
//	s := jsonscan.New(body)
//	for t := s.Next(); t.Kind != jsonscan.End; t = s.Next() {
//		if t.Kind == jsonscan.Invalid {
//			return errNotJSON
//		}
//		use(body[t.Start:t.End])
//	}
//
// # Rules
//
//  1. Strict by RFC 8259: one document, no comments, no trailing comma, numbers without leading zeros,
//     no raw control characters in strings, only the escapes of the RFC, UTF-8 without surrogates and
//     overlong forms, no byte order mark. A document that ends with End was checked as a whole.
//  2. Brackets nest at most [MaxDepth] deep, because most JSON readers recurse.
//  3. Every byte is read once. Nothing is allocated and nothing is unescaped: a token is a place in
//     the document. Within strings the scan moves 32 or 64 bytes at a time, past escapes too.
//
// A prompt is mostly one long string, so the loop over strings is the part that costs. It is there twice: in Go, by words
// of 8 bytes, and in assembly for amd64 with AVX2, which most servers have (vector_amd64.s). Of prose the latter reads
// 2.5 times as much in a second. Of text with escapes it reads 6 times as much, because it does not branch where they are.
// All tests read each document by both, and compare the tokens.
//
// Pictures and sound are strings in base64, as far as no byte of them is anything else, which [IsBase64] finds out at the
// same speed. Whoever looks for something in a document that comes in pieces passes what has no brackets by [NextNested], such as the
// numbers of embeddings.
//
// # Why not a library
//
// gjson validates a document and reads it again for each question, and unescapes every string that it
// passes; encoding/json allocates for each token; the fast readers (sonic, simdjson) build a tree.
// None of them tells of one pass which bytes the tokens are.
package jsonscan
