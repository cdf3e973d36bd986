// What is asked, and what the model server answers to it: by its rules
// (internal/lab/mock/doc.go) words from a list, one a token.

export const prompt = 'Say something.';
export const promptTokens = { chat: 11, responses: 4 };

export const pieces = [' the', ' quick', ' brown', ' fox', ' jumps', ' over', ' a', ' lazy', ' dog', ' while', ' seven', ' wise'];
export const text = pieces.join('');

// speak is a tool. A call of it is as long as an answer: two tokens are the braces.
export const speak = {
  name: 'speak',
  schema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'], additionalProperties: false },
  args: { text: pieces.slice(0, 10).join('') },
};

// vector is the embedding of input number i.
export const vector = (i) => Array.from({ length: 8 }, (_, k) => Math.fround(1 / Math.sqrt(8)) * ((i + 1) >> k & 1 ? -1 : 1));
