// Package strictyaml reads YAML files of which every key must be known, and says
// of everything that is wrong in them where it stands and what to do about it.
//
// A file is read from its top, key by key, by functions that know what they expect:
//
//	err := strictyaml.Read(strictyaml.File{Name: name, Data: data}, func(top strictyaml.Value) {
//		top.Fields(map[string]func(strictyaml.Value){
//			"rate": func(v strictyaml.Value) { v.Number(&rate, 0, 1e6) },
//		})
//	})
//
// A reader that meets something wrong reports it and leaves its target as it was, so
// that all problems of a file are found at once, and none twice.
//
// Config and policy files are not read by it: package tenants lays several files over
// one another, and keeps the origin of each value.
package strictyaml
