// Package head reads the part of a request that decides about it: the model, the limits on its answer, whether
// it streams, how many answers it asks for, which objects and further models it names, and how large it
// is. It reads strictly, because servers read bodies differently: a key that occurs twice, or in another
// case, could let the upstream see another value than the gateway did, and is refused.
//
// There is one function for each kind of body. Those that refuse return an [Error] that names the field.
//
//   - [Read] reads a JSON body, [ReadForm] a form, and [ReadLine] a line of a batch file, into a [Head].
//     A [Reader] reads many JSON bodies in the same memory.
//   - [ReadEvent] reads an event of a realtime session.
//   - [ReadQuery] reads a query, and [CheckPlain] and [CheckKeys] check its keys.
//   - [Walk] shows the members of a JSON document, wherever in it, and lists the objects to which it
//     refers. Of a body that was read, [Head.References] has them.
//
// A Reader goes through a body once. A [jsonscan.Scanner] cuts it into tokens, and four readers get each of
// them: topLevel finds the governed members, finder the references, tokens.Measurer weighs the text, and conversing finds
// the conversation that the call belongs to.
//
//	body ─► jsonscan.Scanner ─► token ─┬─► topLevel ─► rules in governed ─► Head
//	                                   ├─► finder ────► references
//	                                   └─► Measurer ──► size
//
// Only values of governed members are read again, by their rules; most are a word or a number. Nothing is
// unescaped but keys, ids, and names that a rule asks for, these no further than a name can be long.
//
// A [Head] knows where its values stand, so that [Head.Clamp], [Head.AskForUsage] and [Head.Rename] can
// list edits; every other byte of the body is sent as it came.
//
// The package knows no calls, tenants and routes. What depends on a route, for example the names that
// bound its answers, is an argument.
package head
