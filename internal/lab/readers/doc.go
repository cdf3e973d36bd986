// Package readers compares the gateway with the readers of JSON and forms that upstreams are built on:
// bodies are made at random, sent through the gateway, and what it forwards is read by Python (the first
// and the last of two keys wins) and Node.js, forms by Werkzeug, Tornado, python-multipart, busboy and
// formidable. All of them must read the same, and nothing in it may be beyond the grant of the tenant. Of a
// body the gateway itself must have read the same: whether it is streamed, and all objects to which it refers.
//
// It has tests only. Without the readers, which run.sh installs, they are skipped, but for the corpus
// in testdata: bodies that some reader has understood differently once.
package readers
