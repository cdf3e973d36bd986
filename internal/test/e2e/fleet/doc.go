// Package fleet tests several gateways that share a store, as processes of their own: that together they keep limits as one
// would, that what they share is divided as promised, and that neither failures (chaos), nor time (soak), nor another release
// (upgrade) changes that.
package fleet
