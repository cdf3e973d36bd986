// Package tokens guesses how many tokens a prompt has before anybody has
// counted them.
//
// A call must be weighed before it is admitted, and exact tokenizing costs
// 40–100 ms of CPU for a prompt of 100 kB, which is a denial of service handed
// to the caller. So the guess is a class-weighted count of bytes, made in one
// pass at about a nanosecond a byte, times a ratio for each model that is
// learned from the usage which upstream reports. It leans high, because callers choose
// what it learns from, and the settle replaces it in any case.
//
// Until enough was learned of a tenant and a model (Estimator.Uncertain), package bpe can
// count, for models whose vocabulary is public.
//
// # Stability
//
// Experimental: any release may change it.
package tokens
