// Package head reads from a request what decides about it: the model, the limits on its answer, whether
// it streams, how many answers it asks for, which objects and further models it names, and how large it
// is. It reads strictly, because servers read bodies differently: a key that occurs twice, or in another
// case, could let the upstream see another value than the gateway did, and is refused.
//
// There is one function for each kind of body. Those that refuse return an [Error] that names the field.
//
//   - [Read] reads a JSON body, [ReadForm] a form, and [ReadLine] a line of a batch file, into a [Head].
//   - [ReadEvent] reads what a client says in a realtime session.
//   - [ReadQuery] reads a query, and [CheckPlain] and [CheckKeys] check its keys.
//   - [References] lists the objects to which a JSON body refers, wherever in it. [Walk] also shows all
//     other members.
//
// A [Head] knows where its values stand, so that [Head.Clamp], [Head.AskForUsage] and [Head.Rename] can
// list edits; every other byte of the body is sent as it came.
//
// The package knows no calls, tenants and routes. What depends on a route, for example the names that
// bound its answers, is an argument.
package head
