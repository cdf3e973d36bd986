// Package adminapi has the JSON types of the admin API, for the gateway that answers and for
// programs in Go that ask. docs/api.md explains each field.
package adminapi
