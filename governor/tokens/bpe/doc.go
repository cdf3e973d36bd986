// Package bpe counts the tokens of a prompt as OpenAI's models do, for those whose
// vocabulary is public.
//
// # Problem
//
// A first guess by classes of bytes is off by a third for tables and logs, and by a factor
// of two or three for other scripts and for short prompts in much JSON. Until usage has
// come back there is nothing to correct it by: a new tenant's first calls are held at too
// much, or too little. Counting has no such error, and costs a hundred times as much,
// some 150 ns a byte; where a text has no gaps, the square of that.
//
// # Picture
//
//	body ──► prompt: texts, and what frames them ──► pieces of 512 bytes ──► vocabulary ──► tokens
//	         (roles, messages, tools; no JSON)       a sample of long ones
//
// # Rules
//
//   - It is asked only where the guess is not calibrated (tokens.Estimator.Uncertain) or a
//     prompt is a large part of a limit, and answers only when it can at once, or as soon as
//     the caller says: few count at a time, and a vocabulary is loaded beside the
//     first request for it. Whoever gets no answer takes the guess.
//   - Who must be sure, since a prompt that is too long for a pool is refused for good, asks for
//     what a prompt has at the least (AtLeast), and waits for the answer.
//   - Work is bounded, whatever the text: at most 16 kB are counted, in pieces so short
//     that the square of one does not matter. Of longer prompts one of so many pieces is
//     counted, and the rest is taken to be like them.
//     The texts are few, too, and schemas not deep: each text, and each level of what
//     nests, costs something by itself.
//   - What no text tells is not guessed: prompts with images, sound, files or a
//     conversation that the server keeps, and models of other makers, have no answer. Nor
//     has what says much in a place that has no rule here: it would count as nothing.
//   - What frames a message or a tool is as OpenAI's cookbook says.
//
// # What it is not
//
// It is no price: what upstream reports settles every call. It is a package of its own
// for its vocabularies: who embeds the governor need not have them. Packed they have 1.5 MB; each is unpacked when it is first asked for.
//
// # Further reading
//
// How to count tokens with tiktoken: https://github.com/openai/openai-cookbook/blob/main/examples/How_to_count_tokens_with_tiktoken.ipynb.
//
// # Stability
//
// Experimental: any release may change it.
package bpe
