// Package strictyaml reads YAML files of which every key must be known, and says of everything that is wrong in them where
// it stands and how to fix it.
//
//	scenarios.yaml:4:15: unknown key "wieght"; did you mean "weight"?
//
// A file is parsed into a tree without anchors, aliases, merge keys, tags, keys written twice and second documents, because
// each of these makes a file mean something else than it seems to ([Parse]). A [Value] is a node of that tree with its path.
// Its readers report a mistake and then answer something valid, or leave their target as it was, so that all problems of a
// file are found at once, and none twice.
//
// There are two ways to say which keys a mapping may have. A table of [Field] is for files that need a JSON schema as well,
// which is made from the same table:
//
//	var shape = strictyaml.Shape[Pool]{Fields: []strictyaml.Field[Pool]{
//		strictyaml.AmountField("tpm", "Tokens in a minute.", 0, 1e12, func(p *Pool) *int64 { return &p.TPM }),
//	}}
//
// A function for each key is for files that need none:
//
//	err := strictyaml.Read(strictyaml.File{Name: name, Data: data}, func(top strictyaml.Value) {
//		top.Fields(map[string]func(strictyaml.Value){
//			"rate": func(v strictyaml.Value) { v.Number(&rate, 0, 1e6) },
//		})
//	})
//
// Several files can be read into one [Report], which remembers where each path was written.
//
// Decoding into structs would be shorter and says less. yaml/v3, which is the parser here, names an unknown field by its line
// alone (KnownFields); goccy/go-yaml names line and column and stops at the first mistake. Both take "60" for 60 and 0x10
// for 16, and neither knows where a value was written once files and environment are merged.
package strictyaml
