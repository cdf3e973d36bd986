package tenants

import "github.com/llmgov/llmgov/internal/strictyaml"

// The parts of the reader of YAML files that the tables of keys are made of.
type (
	report       = strictyaml.Report
	place        = strictyaml.Place
	document     = strictyaml.Document
	value        = strictyaml.Value
	pair         = strictyaml.Pair
	field[T any] = strictyaml.Field[T]
	shape[T any] = strictyaml.Shape[T]
	kind         = strictyaml.Kind
	schema       = strictyaml.Schema
)

// Problem is one thing that is wrong with a file, a variable or a flag: where, what, and what to do about it.
type Problem = strictyaml.Problem

// Problems is everything wrong with one load, sorted by file and position. It is never empty when returned as an error.
type Problems = strictyaml.Problems
